"""Layers and models that PyG lacks, or computes differently from the paper.

A model is loaded when its name is first used, so that training one does not import the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from drgcn.nn.chebyshev import ChebNet as ChebNet
    from drgcn.nn.chebyshev import ChebyshevConvolution as ChebyshevConvolution
    from drgcn.nn.chebyshev import scaled_laplacian as scaled_laplacian
    from drgcn.nn.gat import GAT as GAT
    from drgcn.nn.gat import GraphAttention as GraphAttention
    from drgcn.nn.gcn import GCN as GCN
    from drgcn.nn.gcn import MLP as MLP
    from drgcn.nn.gcn import GraphConvolution as GraphConvolution
    from drgcn.nn.geniepath import AdaptivePath as AdaptivePath
    from drgcn.nn.geniepath import GeniePath as GeniePath
    from drgcn.nn.graph import normalized_adjacency as normalized_adjacency
    from drgcn.nn.graphsage import GraphSAGE as GraphSAGE
    from drgcn.nn.layer_sampled import ASGCN as ASGCN
    from drgcn.nn.layer_sampled import FastGCN as FastGCN
    from drgcn.nn.lgcn import LGCN as LGCN
    from drgcn.nn.lgcn import LearnableGraphConvolution as LearnableGraphConvolution
    from drgcn.nn.mixhop import MixHop as MixHop
    from drgcn.nn.mixhop import MixHopConvolution as MixHopConvolution
    from drgcn.nn.sparse import SparseMatrix as SparseMatrix
    from drgcn.nn.sparse import spmm as spmm

# The models: name in experiments, class, and the module of this package that holds it. A line
# here is all that a new model needs besides its module and its recipe.
_MODELS = {
    "gcn": ("GCN", "gcn"),
    "gat": ("GAT", "gat"),
    "mixhop": ("MixHop", "mixhop"),
    "chebyshev": ("ChebNet", "chebyshev"),
    "mlp": ("MLP", "gcn"),
    "lgcn": ("LGCN", "lgcn"),
    "geniepath": ("GeniePath", "geniepath"),
    "graphsage": ("GraphSAGE", "graphsage"),
    "fastgcn": ("FastGCN", "layer_sampled"),
    "asgcn": ("ASGCN", "layer_sampled"),
}

_PARTS = {
    "AdaptivePath": "geniepath",
    "ChebyshevConvolution": "chebyshev",
    "GraphAttention": "gat",
    "GraphConvolution": "gcn",
    "LearnableGraphConvolution": "lgcn",
    "MixHopConvolution": "mixhop",
    "SparseMatrix": "sparse",
    "normalized_adjacency": "graph",
    "scaled_laplacian": "chebyshev",
    "spmm": "sparse",
}

_HOMES = dict(_MODELS.values()) | _PARTS

__all__ = [*_HOMES]


def model_class(name: str) -> type[torch.nn.Module]:
    """Return the class of a model by its name in experiments, such as ``"gcn"``."""
    return __getattr__(_MODELS[name][0])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
