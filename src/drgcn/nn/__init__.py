"""Layers and models that PyG lacks, or computes differently from the paper."""

from drgcn.nn.chebyshev import ChebNet, ChebyshevConvolution, scaled_laplacian
from drgcn.nn.gat import GAT, GraphAttention
from drgcn.nn.gcn import GCN, GraphConvolution
from drgcn.nn.geniepath import AdaptivePath, GeniePath
from drgcn.nn.graph import normalized_adjacency
from drgcn.nn.graphsage import GraphSAGE
from drgcn.nn.layer_sampled import ASGCN, FastGCN
from drgcn.nn.lgcn import LGCN, LearnableGraphConvolution
from drgcn.nn.mixhop import MixHop, MixHopConvolution
from drgcn.nn.mlp import MLP
from drgcn.nn.sparse import SparseMatrix, spmm

__all__ = [
    "ASGCN",
    "GAT",
    "GCN",
    "LGCN",
    "MLP",
    "AdaptivePath",
    "ChebNet",
    "ChebyshevConvolution",
    "FastGCN",
    "GeniePath",
    "GraphAttention",
    "GraphConvolution",
    "GraphSAGE",
    "LearnableGraphConvolution",
    "MixHop",
    "MixHopConvolution",
    "SparseMatrix",
    "normalized_adjacency",
    "scaled_laplacian",
    "spmm",
]
