"""The one door through which every reader's arrays become a PyG ``Data``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from drgcn.data.edges import undirected
from drgcn.data.features import Features, normalized
from drgcn.data.info import DatasetInfo, content_hash
from drgcn.data.splits import AnyLabels, Masks, labelled

if TYPE_CHECKING:
    from torch_geometric.data import Data


@dataclass(frozen=True)
class RawGraph:
    """What a reader hands on: checked arrays, edges as listed, features as stored.

    Attributes:
        x: Features, a float array or a ``scipy.sparse.csr_array``.
        y: Labels, -1 where there is none; zeros and ones for several labels a node.
        pairs: Listed edges, shape ``[2, E]``.
        masks: Training, validation and test nodes.
        split: Name of the split.
        split_seed: Seed of a random split.
        class_names: Names of the classes; numbers if the files hold none.
        feature_source: Where the features come from.
        graph: For a union of graphs, the graph that each node belongs to.
        graph_names: Names of these graphs.
    """

    x: Features
    y: AnyLabels
    pairs: npt.NDArray[np.int64]
    masks: Masks
    split: str
    split_seed: int | None = None
    class_names: tuple[str, ...] = ()
    feature_source: str = "published"
    graph: npt.NDArray[np.int64] | None = None
    graph_names: tuple[str, ...] = ()


def assemble(raw: RawGraph, *, name: str, normalize: str, as_sparse: bool, **about: Any) -> Data:
    """Clean the edges, normalise the features, and write down what was done.

    Args:
        raw: A reader's arrays.
        name: Name for the record.
        normalize: One of :data:`drgcn.data.features.NORMALIZATIONS`.
        as_sparse: Whether ``x`` becomes a ``torch.sparse_csr`` tensor.
        **about: Further fields of :class:`DatasetInfo` (licence, citation, home, options).
    """
    from torch_geometric.data import Data

    x = raw.x.astype(np.float32)
    x = normalized(x, normalize, raw.masks.train)
    edges = undirected(raw.pairs, len(raw.y))
    multi_label = raw.y.ndim == 2
    classes = raw.y.shape[1] if multi_label else int(raw.y.max(initial=-1)) + 1
    names = raw.class_names or tuple(str(label) for label in range(classes))
    info = DatasetInfo(
        name=name,
        split=raw.split,
        split_seed=raw.split_seed,
        nodes=len(raw.y),
        edges=edges.edge_index.shape[1] // 2,
        features=x.shape[1],
        classes=len(names),
        class_names=names,
        train=int(raw.masks.train.sum()),
        val=int(raw.masks.val.sum()),
        test=int(raw.masks.test.sum()),
        unlabelled=int((~labelled(raw.y)).sum()),
        self_loops=edges.self_loops,
        duplicate_edges=edges.duplicates,
        feature_source=raw.feature_source,
        normalize=normalize,
        content_hash=content_hash(x, raw.y, edges.edge_index, raw.masks),
        multi_label=multi_label,
        **about,
    )
    data = Data(
        x=_tensor(x, as_sparse),
        edge_index=torch.from_numpy(edges.edge_index),
        y=torch.from_numpy(raw.y),
        train_mask=torch.from_numpy(raw.masks.train),
        val_mask=torch.from_numpy(raw.masks.val),
        test_mask=torch.from_numpy(raw.masks.test),
        dataset=info,
    )
    if raw.graph is not None:
        data.graph = torch.from_numpy(raw.graph)
        data.graph_names = list(raw.graph_names)
    return data


def _tensor(x: Features, as_sparse: bool) -> torch.Tensor:
    if not as_sparse:
        dense = x.toarray() if sparse.issparse(x) else x
        return torch.from_numpy(np.ascontiguousarray(dense))
    csr = sparse.csr_array(x, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    return torch.sparse_csr_tensor(
        torch.from_numpy(csr.indptr.astype(np.int64)),
        torch.from_numpy(csr.indices.astype(np.int64)),
        torch.from_numpy(csr.data),
        size=csr.shape,
    )
