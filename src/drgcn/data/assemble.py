"""Assembly of a reader's arrays into a PyG ``Data`` with a record of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from drgcn.data.features import Features, normalized
from drgcn.data.readers import require_memory
from drgcn.data.splits import AnyLabels, Masks, labelled
from drgcn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

# Attributes of edges in PyG that are lost where graphs are united.
UNUSED: Final = ("edge_weight", "edge_attr")
_ROWS_PER_BLOCK: Final = 4096
# Of what is known of a dataset, the facts that a record keeps.
RECORDED_FACTS = (
    "name",
    "split",
    "split_seed",
    "nodes",
    "edges",
    "features",
    "classes",
    "train",
    "val",
    "test",
    "feature_source",
    "normalize",
    "options",
    "content_hash",
)


@dataclass(frozen=True)
class RawGraph:
    """Arrays of a reader: checked, edges as listed, features as stored.

    Attributes:
        x: Features, a float array or a ``scipy.sparse.csr_array``.
        y: Labels, -1 where there is none; zeros and ones for several labels a node.
        pairs: Listed edges, shape ``[2, E]``.
        masks: Training, validation and test nodes.
        split: Name of the split.
        split_seed: Seed of a random split.
        class_names: Names of the classes; numbers if the files hold none.
        feature_source: Source of the features.
        graph: For a union of graphs, the graph that each node belongs to.
        graph_names: Names of these graphs.
        weight: Weight of each listed edge, the same wherever an edge is listed; ``None`` for ones.
        measured: Whether ``y`` holds measurements ``[nodes, values]``, NaN where they are unknown.
        identity: A number a node, equal for nodes that are the same thing; -1 where not known.
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
    weight: npt.NDArray[np.float32] | None = None
    measured: bool = False
    identity: npt.NDArray[np.int64] | None = None


def assemble(raw: RawGraph, *, name: str, normalize: str, as_sparse: bool, **about: Any) -> Data:
    """Clean the edges, normalise the features, and record what was done.

    Args:
        raw: A reader's arrays.
        name: Name for the record.
        normalize: One of :data:`drgcn.data.features.NORMALIZATIONS`.
        as_sparse: Whether ``x`` becomes a ``torch.sparse_csr`` tensor.
        **about: Further fields of :class:`DatasetInfo` (licence, citation, home, options).
    """
    from torch_geometric.data import Data

    if not as_sparse:
        require_memory(4 * raw.x.shape[0] * raw.x.shape[1], name)
    x = raw.x.astype(np.float32)
    x = normalized(x, normalize, raw.masks.train)
    edges = undirected(raw.pairs, len(raw.y))
    weight = None
    if raw.weight is not None:
        weight = _weights_of(edges.edge_index, raw.pairs, raw.weight, len(raw.y))
        about["options"] = (*about.get("options", ()), ("edge_weight", True))
    multi_label = raw.y.ndim == 2 and not raw.measured
    classes = raw.y.shape[1] if raw.y.ndim == 2 else int(raw.y.max(initial=-1)) + 1
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
        listed_both_ways=edges.both_ways,
        feature_source=raw.feature_source,
        normalize=normalize,
        content_hash=content_hash(
            x, raw.y, edges.edge_index, raw.masks, weight, measured=raw.measured
        ),
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
    if weight is not None:
        data.edge_weight = torch.from_numpy(weight)
    if raw.graph is not None:
        data.graph = torch.from_numpy(raw.graph)
        data.graph_names = list(raw.graph_names)
    if raw.identity is not None:
        data.identity = torch.from_numpy(raw.identity)
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


@dataclass(frozen=True)
class DatasetInfo:
    """Record of a loaded dataset: its source, its sizes and the changes made to it.

    Attributes:
        name: Catalogue name, or the file name of a user's own data.
        split: Name of the split.
        split_seed: Seed of a random split; ``None`` for a published or given one.
        nodes: Number of nodes.
        edges: Number of undirected edges.
        features: Number of feature columns.
        classes: Number of classes, or of labels where a node has several, or of measured values.
        class_names: One name per class, in label order.
        train: Number of training nodes.
        val: Number of validation nodes.
        test: Number of test nodes.
        unlabelled: Number of nodes without a label (``y == -1``, or NaN among measured values).
        self_loops: Nodes whose edge to themselves was removed.
        duplicate_edges: Removed repetitions of a (source, target) pair. Direction counts here:
            an edge listed once each way is no repetition. Loops are counted above alone.
        feature_source: ``"published"``, ``"rebuilt..."``, ``"generated"`` or ``"own"``.
        normalize: Normalisation of the features.
        content_hash: Digest of features, labels, edges and masks, see :func:`content_hash`.
        licence: Licence of the data.
        citation: Paper to cite.
        home: The publisher's page.
        options: Further choices that shaped the data, as (name, value) pairs.
        multi_label: Whether a node has several labels: ``y`` is then a matrix of zeros and ones.
        listed_both_ways: Edges that were listed in both directions; the others in one. How a file
            lists them is no part of the dataset: equal datasets may differ here.
    """

    name: str
    split: str
    split_seed: int | None
    nodes: int
    edges: int
    features: int
    classes: int
    class_names: tuple[str, ...]
    train: int
    val: int
    test: int
    unlabelled: int
    self_loops: int
    duplicate_edges: int
    feature_source: str
    normalize: str
    content_hash: str
    licence: str = ""
    citation: str = ""
    home: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    multi_label: bool = False
    listed_both_ways: int = field(default=0, compare=False)

    def __str__(self) -> str:
        # PyG prints attributes with str(): a line, not a page.
        return f"{self.name} ({self.split} split)"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values only, ready for JSON."""
        return asdict(self) | {
            "class_names": list(self.class_names),
            "options": dict(self.options),
        }


def content_hash(
    x: npt.NDArray[np.float32] | sparse.csr_array,
    y: AnyLabels,
    edge_index: npt.NDArray[np.int64],
    masks: Iterable[npt.NDArray[np.bool_]],
    weight: npt.NDArray[np.float32] | None = None,
    *,
    measured: bool = False,
) -> str:
    """Return the first 16 hex digits of a SHA-256 over all that a model can see.

    Features enter as the CSR form of their non-zeros, everything in little-endian bytes of
    fixed width, so the digest depends neither on the layout in memory nor on the machine.
    """
    counts, columns, values = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    for start in range(0, x.shape[0], _ROWS_PER_BLOCK):
        block = sparse.csr_array(x[start : start + _ROWS_PER_BLOCK], dtype=np.float32, copy=True)
        block.sum_duplicates()
        block.eliminate_zeros()
        counts.update(np.diff(block.indptr).astype("<i8").tobytes())
        columns.update(block.indices.astype("<i8").tobytes())
        values.update(block.data.astype("<f4").tobytes())

    whole = hashlib.sha256(np.asarray(x.shape, "<i8").tobytes())
    for part in (counts, columns, values):
        whole.update(part.digest())
    if y.ndim == 2:
        # Their width sets several labels a node apart from a class number a node.
        whole.update(np.asarray(y.shape, "<i8").tobytes())
    arrays = [np.asarray(y, "<f4" if measured else "<i8"), np.asarray(edge_index, "<i8")]
    for array in arrays + [np.asarray(mask, "|u1") for mask in masks]:
        whole.update(hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest())
    if weight is not None:
        whole.update(hashlib.sha256(weight.astype("<f4").tobytes()).digest())
    return whole.hexdigest()[:16]


class CleanEdges(NamedTuple):
    """Edges in both directions, sorted, and counts of what was removed."""

    edge_index: npt.NDArray[np.int64]
    self_loops: int
    duplicates: int
    both_ways: int


def undirected(pairs: npt.NDArray[np.int64], nodes: int) -> CleanEdges:
    """Return each edge once in both directions, sorted by source then target, without loops.

    Args:
        pairs: Listed (source, target) pairs, shape ``[2, E]``, all below ``nodes``.
        nodes: Number of nodes.
    """
    # NOTE[DIFF]: the code bases that the paper builds on keep the loops of the raw files, so such
    # nodes count themselves twice once the identity is added; the paper's own edge counts, like
    # ours, are those without loops.
    source, target = pairs
    loops = source == target
    keys = source[~loops] * nodes + target[~loops]
    distinct = _distinct(keys)
    mirrored = distinct % nodes * nodes + distinct // nodes if nodes else distinct
    both = _distinct(np.concatenate([distinct, mirrored]))
    index = np.stack([both // nodes, both % nodes]) if nodes else np.empty((2, 0), np.int64)
    both_ways = len(distinct) - index.shape[1] // 2
    return CleanEdges(index, len(np.unique(source[loops])), len(keys) - len(distinct), both_ways)


def _weights_of(
    edge_index: npt.NDArray[np.int64],
    pairs: npt.NDArray[np.int64],
    weight: npt.NDArray[np.float32],
    nodes: int,
) -> npt.NDArray[np.float32]:
    """Return the weight of each entry of ``edge_index``, in whichever direction it was listed."""
    listed = undirected_keys(pairs, nodes)
    order = np.argsort(listed, kind="stable")
    return weight[order[np.searchsorted(listed, undirected_keys(edge_index, nodes), sorter=order)]]


def undirected_keys(pairs: npt.NDArray[np.int64], nodes: int) -> npt.NDArray[np.int64]:
    """Return one number for each listed edge, the same in both directions."""
    return pairs.min(axis=0, initial=nodes) * nodes + pairs.max(axis=0, initial=0)


def _distinct(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the different keys in order; np.unique hashes, and took 90 s where this takes 4."""
    ordered = np.sort(keys)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


def as_features(x: torch.Tensor, source: str) -> Features:
    """Return a feature matrix, dense or in CSR form as the tensor is dense or sparse."""
    if x.layout == torch.strided:
        return _numpy(x, source)
    if x.is_meta:
        return _numpy(x, source)
    coo = x.to_sparse_coo().coalesce()
    if coo.dense_dim() or not coo.is_floating_point():
        return _numpy(coo.to_dense(), source)
    indices = coo.indices().cpu().numpy()
    values = coo.values().detach().cpu().float().numpy()
    return sparse.csr_array((values, indices), shape=tuple(coo.shape))


def as_array(value: Any, source: str) -> npt.NDArray[Any]:
    """Return labels, edges or a mask as an array."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        raise InputError(f"{source}: y, edge_index and masks must be plain tensors")
    return _numpy(value, source)


def _numpy(tensor: torch.Tensor, source: str) -> npt.NDArray[Any]:
    if tensor.is_meta:
        raise InputError(f"{source}: expected tensors with values; found one on the device meta.")
    require_memory(tensor.numel() * tensor.element_size(), source)
    # numpy does not know all of torch's float types.
    tensor = tensor.detach().cpu()
    try:
        return (tensor.float() if tensor.is_floating_point() else tensor.resolve_conj()).numpy()
    except (TypeError, RuntimeError):
        raise InputError(f"{source}: a tensor of type {tensor.dtype} cannot be read") from None
