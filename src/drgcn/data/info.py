"""The record that travels with every loaded graph, and the digest of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.data.splits import AnyLabels

_ROWS_PER_BLOCK = 4096


@dataclass(frozen=True)
class DatasetInfo:
    """What was loaded, from where, and what was done to it on the way.

    Attributes:
        name: Catalogue name, or the file name of a user's own data.
        split: Name of the split.
        split_seed: Seed of a random split; ``None`` for a published or given one.
        nodes: Number of nodes.
        edges: Number of undirected edges.
        features: Number of feature columns.
        classes: Number of classes, or of labels where a node has several.
        class_names: One name per class, in label order.
        train: Number of training nodes.
        val: Number of validation nodes.
        test: Number of test nodes.
        unlabelled: Number of nodes without a label (``y == -1``).
        self_loops: Nodes whose edge to themselves was removed.
        duplicate_edges: Removed repetitions of a (source, target) pair. Direction counts here:
            an edge listed once each way is no repetition. Loops are counted above alone.
        feature_source: ``"published"``, ``"rebuilt..."``, ``"generated"`` or ``"own"``.
        normalize: What was applied to the features.
        content_hash: Digest of features, labels, edges and masks, see :func:`content_hash`.
        licence: Licence of the data.
        citation: Paper to cite.
        home: The publisher's page.
        options: Further choices that shaped the data, as (name, value) pairs.
        multi_label: Whether a node has several labels: ``y`` is then a matrix of zeros and ones.
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

    def __str__(self) -> str:
        # PyG prints attributes with str(): a line, not a page.
        return f"{self.name} ({self.split} split)"

    def to_dict(self) -> dict[str, Any]:
        """Plain values only, ready for JSON."""
        return asdict(self) | {
            "class_names": list(self.class_names),
            "options": dict(self.options),
        }


def content_hash(
    x: npt.NDArray[np.float32] | sparse.csr_array,
    y: AnyLabels,
    edge_index: npt.NDArray[np.int64],
    masks: Iterable[npt.NDArray[np.bool_]],
) -> str:
    """First 16 hex digits of a SHA-256 over what a model can see.

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
    arrays = [np.asarray(y, "<i8"), np.asarray(edge_index, "<i8")]
    for array in arrays + [np.asarray(mask, "|u1") for mask in masks]:
        whole.update(hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest())
    return whole.hexdigest()[:16]
