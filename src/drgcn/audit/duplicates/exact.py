"""Nodes whose features are equal in every entry, found by hashing rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.duplicates.feature_rows import feature_rows, row_sizes
from drgcn.audit.duplicates.pairs import DuplicatePairs
from drgcn.data.features import Features

Hashes = npt.NDArray[np.uint64]

_CHUNK = 1 << 13
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class ExactDuplicates:
    """Rows that are equal.

    Attributes:
        pairs: Each further row with the first that equals it: n equal rows are n - 1 pairs.
        zero_rows: Nodes whose features are all zero. They are equal too, but since nothing is
            known of them, not since they are the same: they are in no pair.
        first: For every node the first node with equal features.
    """

    pairs: DuplicatePairs
    zero_rows: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]


def exact_duplicates(x: Any) -> ExactDuplicates:
    """Find rows that are equal in float32, the precision of the models.

    Rows of equal hash are compared entry by entry, so a collision makes no pair. Time and memory
    grow with the stored entries; sparse features stay sparse.

    Args:
        x: Features ``[nodes, columns]``: a tensor (dense, COO, CSR), an array, or a SciPy matrix.

    Example:
        >>> found = exact_duplicates(np.array([[1, 2], [0, 0], [1, 2], [0, 0]]))
        >>> found.pairs.nodes.tolist(), found.zero_rows.tolist()
        ([[0, 2]], [1, 3])

    Raises:
        InputError: If the features are no matrix of finite numbers.
    """
    rows = feature_rows(x)
    sizes = row_sizes(rows)
    first = _first_equal(rows, _hashes(rows), np.flatnonzero(sizes))
    later = np.flatnonzero(first != np.arange(len(first)))
    pairs = np.stack([first[later], later], axis=1)
    return ExactDuplicates(
        DuplicatePairs("exact features", pairs, np.ones(len(pairs))),
        np.flatnonzero(sizes == 0),
        first,
    )


def _first_equal(
    rows: Features, hashes: Hashes, among: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    first = np.arange(rows.shape[0])
    waiting = among
    # One round is enough unless hashes collide; what differs from the first of its hash waits.
    while len(waiting) > 1:
        order = waiting[np.argsort(hashes[waiting], kind="stable")]
        new = np.append(True, np.diff(hashes[order]) != 0)
        head = order[np.flatnonzero(new)[np.cumsum(new) - 1]]
        later, head = order[~new], head[~new]
        equal = _equal(rows, head, later)
        first[later[equal]] = head[equal]
        waiting = np.sort(later[~equal])
    return first


def _equal(
    rows: Features, a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    equal = np.ones(len(a), dtype=np.bool_)
    for at in range(0, len(a), _CHUNK):
        part = slice(at, at + _CHUNK)
        if sparse.issparse(rows):
            differences = (rows[a[part]] != rows[b[part]]).tocsr()
            equal[part] = np.diff(differences.indptr) == 0
        else:
            equal[part] = (rows[a[part]] == rows[b[part]]).all(axis=1)
    return equal


def _hashes(rows: Features) -> Hashes:
    """The sum over a row's non-zero entries of a hash of column and value.

    Zeros add nothing and the order does not matter, so that a row has one hash in every layout.
    """
    salt = _mixed(np.arange(1, rows.shape[1] + 1, dtype=np.uint64) * _ODD)
    if not sparse.issparse(rows):
        hashes = np.zeros(len(rows), dtype=np.uint64)
        for at in range(0, len(rows), _CHUNK):
            block = rows[at : at + _CHUNK]
            mixed = _mixed(_bits(block) ^ salt)
            mixed[block == 0] = 0
            hashes[at : at + _CHUNK] = mixed.sum(axis=1, dtype=np.uint64)
        return hashes
    sums = np.zeros(rows.nnz + 1, dtype=np.uint64)
    np.cumsum(_mixed(_bits(rows.data) ^ salt[rows.indices]), out=sums[1:])
    return sums[rows.indptr[1:]] - sums[rows.indptr[:-1]]  # both modulo 2 ** 64


def _bits(values: npt.NDArray[np.float32]) -> Hashes:
    return np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)


def _mixed(values: Hashes) -> Hashes:
    """A 64-bit finaliser in which every bit of the input moves every bit of the output."""
    values = values ^ (values >> np.uint64(32))
    values *= np.uint64(0xD6E8FEB86659FD93)
    values ^= values >> np.uint64(32)
    values *= np.uint64(0xD6E8FEB86659FD93)
    values ^= values >> np.uint64(32)
    return values
