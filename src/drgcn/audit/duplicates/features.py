"""Pairs of nodes with equal features, or with more similar features than chance explains."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from drgcn.audit.duplicates.chance import IndependenceNull, Similarity, as_sets, log_chance
from drgcn.audit.duplicates.hashing import similar_directions, similar_sets
from drgcn.data.assemble import as_features
from drgcn.data.features import Features, numeric_matrix
from drgcn.errors import InputError

Evidence = Literal["exact features", "near features", "text", "structure"]
Hashes = npt.NDArray[np.uint64]

# Below this, nobody would call two rows near duplicates, however rare such a pair is by chance:
# half of the words in common, or a tenth of the mean squared length apart.
LEAST: Final[dict[Similarity, float]] = {"jaccard": 0.5, "dice": 0.9}

# From this share of non-zero entries on, a dense float32 matrix is at most 4/3 of the size of
# the CSR form, so that either layout may become the other without filling the memory.
_DENSE = 0.25
# A direction in which standardised features spread by less than a tenth counts less and less:
# what two copies differ in by rounding or noise is mostly there.
_FLOOR = 0.01
# Beyond this, a covariance matrix costs more than it tells.
_WIDEST = 4096
_ODD = np.uint64(0x9E3779B97F4A7C15)
# Rows or pairs at a time.
_HASH_CHUNK = 1 << 13
_DENSITY_CHUNK = 1 << 14
_PAIR_CHUNK = 1 << 15
_WHITENING_CHUNK = 1 << 15


@dataclass(frozen=True, eq=False)
class DuplicatePairs:
    """Pairs of one kind of evidence, in rising order and each with the smaller node first.

    Attributes:
        evidence: What is alike.
        nodes: The pairs, shape ``[P, 2]``.
        score: The similarity of each pair, 1 for equal.
    """

    evidence: Evidence
    nodes: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        nodes = np.sort(np.asarray(self.nodes, dtype=np.int64).reshape(-1, 2), axis=1)
        score = np.asarray(self.score, dtype=np.float64)
        order = np.lexsort((nodes[:, 1], nodes[:, 0]))
        object.__setattr__(self, "nodes", nodes[order])
        object.__setattr__(self, "score", score[order])

    def __len__(self) -> int:
        return len(self.nodes)

    def within(self, group: Iterable[int]) -> DuplicatePairs:
        """Return the pairs whose two nodes are both in a group."""
        inside = np.isin(self.nodes, list(group)).all(axis=1)
        return DuplicatePairs(self.evidence, self.nodes[inside], self.score[inside])


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
    for at in range(0, len(a), _HASH_CHUNK):
        part = slice(at, at + _HASH_CHUNK)
        if sparse.issparse(rows):
            differences = (rows[a[part]] != rows[b[part]]).tocsr()
            equal[part] = np.diff(differences.indptr) == 0
        else:
            equal[part] = (rows[a[part]] == rows[b[part]]).all(axis=1)
    return equal


def _hashes(rows: Features) -> Hashes:
    """Sum, over each row's non-zero entries, a hash of column and value.

    Zeros add nothing and the order does not matter, so that a row has one hash in every layout.
    """
    salt = _mixed(np.arange(1, rows.shape[1] + 1, dtype=np.uint64) * _ODD)
    if not sparse.issparse(rows):
        hashes = np.zeros(len(rows), dtype=np.uint64)
        for at in range(0, len(rows), _HASH_CHUNK):
            block = rows[at : at + _HASH_CHUNK]
            mixed = _mixed(_bits(block) ^ salt)
            mixed[block == 0] = 0
            hashes[at : at + _HASH_CHUNK] = mixed.sum(axis=1, dtype=np.uint64)
        return hashes
    sums = np.zeros(rows.nnz + 1, dtype=np.uint64)
    np.cumsum(_mixed(_bits(rows.data) ^ salt[rows.indices]), out=sums[1:])
    return sums[rows.indptr[1:]] - sums[rows.indptr[:-1]]  # both modulo 2 ** 64


def _bits(values: npt.NDArray[np.float32]) -> Hashes:
    return np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)


def _mixed(values: Hashes) -> Hashes:
    """Mix bits by a 64-bit finaliser: every bit of the input moves every bit of the output."""
    values = values ^ (values >> np.uint64(32))
    values *= np.uint64(0xD6E8FEB86659FD93)
    values ^= values >> np.uint64(32)
    values *= np.uint64(0xD6E8FEB86659FD93)
    values ^= values >> np.uint64(32)
    return values


@dataclass(frozen=True, eq=False)
class NearDuplicates:
    """Rows that are alike but not equal.

    Attributes:
        pairs: Pairs with their similarity. Of equal rows only the first is in a pair.
        similarity: ``"jaccard"`` (bags of words) or ``"dice"`` (other features).
        threshold: The least similarity of a pair: ``null_quantile`` or what the caller asked
            for, whichever is more.
        null_quantile: The similarity that, of all pairs of the dataset, no more than
            ``expected_false`` are expected to reach once columns are permuted independently;
            infinite if every similarity can be chance.
        expected_false: Expected number of false pairs in the whole dataset, at most.
    """

    pairs: DuplicatePairs
    similarity: Similarity
    threshold: float
    null_quantile: float
    expected_false: float


def near_duplicates(
    x: Any,
    *,
    expected_false: float = 0.05,
    least: float | None = None,
    seed: int = 0,
    evidence: Evidence = "near features",
) -> NearDuplicates:
    """Find rows that are more alike than independent columns make any pair of the dataset.

    Bags of words are measured by Jaccard similarity. Other features are measured by Dice's
    similarity 2 u.v / (|u|^2 + |v|^2), which is the cosine of rows of equal length and 1 for equal
    rows alone. If at least a quarter of the entries are not zero, columns are first standardised
    and freed of their correlations (see :func:`whitened`). Candidates come from MinHash or
    random projections, never from all pairs.

    The threshold comes from rows whose columns are permuted independently (see
    :class:`~drgcn.audit.duplicates.chance.IndependenceNull`). A pair of sparse rows must also
    share more columns than chance gives two rows of their lengths (see
    :func:`~drgcn.audit.duplicates.chance.log_chance`). Real columns do depend on each other, as
    words of one topic do: a pair above the threshold is not chance, but only reading tells whether
    it is one paper twice, two versions, or two papers with one text.

    Args:
        x: Features ``[nodes, columns]``: a tensor (dense, COO, CSR), an array, or a SciPy matrix.
        expected_false: Expected number of false pairs in the whole dataset, at most.
        least: Similarity below which no pair is reported; 0.5 (Jaccard) or 0.9 (Dice) if not
            given.
        seed: Seed of the hash functions and of the sample of large data.
        evidence: How the pairs are called.

    Raises:
        InputError: If the features are no matrix of finite numbers, or an option is out of range.
    """
    if not 0 < expected_false < math.inf or not (least is None or 0 < least <= 1):
        raise InputError(
            "Expected expected_false to be positive and least to be in (0, 1]; found "
            f"{expected_false} and {least}."
        )
    rows = feature_rows(x)
    exact = exact_duplicates(rows)
    distinct = exact.first == np.arange(rows.shape[0])
    distinct[exact.zero_rows] = False
    chosen = np.flatnonzero(distinct)
    rows = by_density(rows)
    rows = rows if len(chosen) == rows.shape[0] else rows[chosen]
    words = bag_of_words(rows)
    similarity: Similarity = "dice" if words is None else "jaccard"
    if words is None:
        rows = rows if sparse.issparse(rows) else whitened(rows)
        null = IndependenceNull.of_rows(rows, seed)
    else:
        rows = words
        null = IndependenceNull.of_words(words)
    every = len(chosen) * (len(chosen) - 1) / 2
    quantile = null.threshold(every, expected_false)
    threshold = max(quantile, LEAST[similarity] if least is None else least)
    pairs, score = _pairs(rows, similarity, threshold, seed)
    if sparse.issparse(rows) and len(pairs):
        rare = log_chance(as_sets(rows), pairs) + math.log(max(every, 1)) <= math.log(
            expected_false
        )
        pairs, score = pairs[rare], score[rare]
    found = DuplicatePairs(evidence, chosen[pairs], score)
    return NearDuplicates(found, similarity, threshold, quantile, expected_false)


def _pairs(
    rows: Features, similarity: Similarity, threshold: float, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    if threshold > 1:
        return np.empty((0, 2), dtype=np.int64), np.empty(0)
    if similarity == "jaccard":
        pairs = similar_sets(rows, threshold, seed)
    elif sparse.issparse(rows):
        # Rows that are alike share their heavy columns; how many others they share is open.
        pairs = similar_sets(rows, threshold / 2, seed)
    else:
        # The cosine is never less than Dice's similarity, so no pair is lost by asking for it.
        pairs = similar_directions(rows, threshold, seed)
    score = _scores(rows, pairs, similarity)
    # In float32 a pair at the threshold may fall short of it by rounding.
    alike = score >= threshold - 1e-6
    return pairs[alike], score[alike]


def _scores(
    rows: Features, pairs: npt.NDArray[np.int64], similarity: Similarity
) -> npt.NDArray[np.float64]:
    squares = _squares(rows)
    score = np.empty(len(pairs))
    for at in range(0, len(pairs), _PAIR_CHUNK):
        a, b = pairs[at : at + _PAIR_CHUNK].T
        if sparse.issparse(rows):
            product = np.asarray(rows[a].multiply(rows[b]).sum(axis=1), dtype=np.float64).ravel()
        else:
            product = np.einsum("ij,ij->i", rows[a], rows[b], dtype=np.float64)
        both = squares[a] + squares[b]
        whole = both - product if similarity == "jaccard" else both / 2
        score[at : at + _PAIR_CHUNK] = np.divide(
            product, whole, out=np.zeros(len(a)), where=whole > 0
        )
    return score


def _squares(rows: Features) -> npt.NDArray[np.float64]:
    if sparse.issparse(rows):
        return np.asarray(rows.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", rows, rows, dtype=np.float64)


def whitened(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return columns of mean zero and variance one that are not correlated with each other.

    Rows z of standardised columns become ``z (C + 0.01)^(-1/2)``, where C is their correlation
    matrix. Among correlated columns many rows are alike without being the same: a large tumour
    is large in all ten measures of size. The symmetric root changes columns as little as
    possible, so columns that are independent stay what they are.

    Args:
        rows: Dense features; of more than 4,096 columns, correlations are left as they are.
    """
    mean = rows.mean(axis=0, dtype=np.float64)
    spread = rows.std(axis=0, dtype=np.float64)
    # A constant column can have a tiny spread by rounding: ask the values.
    varies = (rows.max(axis=0) > rows.min(axis=0)) if len(rows) else spread > 0
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=varies & (spread > 0))
    change = np.diag(scale)
    if 0 < rows.shape[1] <= _WIDEST and len(rows):
        correlation = np.zeros((rows.shape[1], rows.shape[1]))
        for at in range(0, len(rows), _WHITENING_CHUNK):
            block = (rows[at : at + _WHITENING_CHUNK] - mean) * scale
            correlation += block.T @ block / len(rows)
        values, vectors = np.linalg.eigh(correlation)
        root = vectors / np.sqrt(np.maximum(values, 0) + _FLOOR) @ vectors.T
        change = scale[:, None] * root
    result = np.empty(rows.shape, dtype=np.float32)
    for at in range(0, len(rows), _WHITENING_CHUNK):
        block = rows[at : at + _WHITENING_CHUNK] - mean
        result[at : at + _WHITENING_CHUNK] = (
            block @ change if rows.shape[1] <= _WIDEST else block * scale
        )
    return result


def feature_rows(x: Any) -> Features:
    """Return checked rows in float32: dense, or CSR with sorted columns and no stored zeros.

    Sparse features are not made dense. What comes back shares no memory with sparse input, and
    nobody writes to it if the input is dense.

    Args:
        x: Features ``[nodes, columns]``: a tensor (dense, COO, CSR), an array, or a SciPy matrix.

    Raises:
        InputError: If they are no matrix of finite numbers; the message names row and column.
    """
    matrix = as_features(x, "features") if isinstance(x, torch.Tensor) else x
    matrix = numeric_matrix(matrix, "features")
    if sparse.issparse(matrix):
        matrix = sparse.csr_array(matrix, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        matrix.sort_indices()
    return matrix


def by_density(rows: Features) -> Features:
    """Return the same rows, in CSR if few entries are not zero, else dense.

    So what is computed from rows depends on their content and not on the layout they came in.
    """
    entries = rows.nnz if sparse.issparse(rows) else np.count_nonzero(rows)
    dense = entries >= _DENSE * max(rows.shape[0] * rows.shape[1], 1)
    if dense:
        return rows.toarray() if sparse.issparse(rows) else rows
    return rows if sparse.issparse(rows) else sparse.csr_array(rows)


def bag_of_words(rows: Features) -> sparse.csr_array | None:
    """Return the rows as zeros and ones if they are a bag of words; ``None`` if values matter.

    A bag of words may have been divided by its number of words or by its length: then the values
    of a row are equal, and follow from how many there are.
    """
    csr = rows if sparse.issparse(rows) else None
    if csr is None:
        if not all(
            _one_value(rows[at : at + _DENSITY_CHUNK])
            for at in range(0, len(rows), _DENSITY_CHUNK)
        ):
            return None
        csr = sparse.csr_array(rows)
    counts = np.diff(csr.indptr)
    some = counts > 0
    if not some.any():
        return None
    starts = csr.indptr[:-1][some]
    least = np.minimum.reduceat(csr.data, starts).astype(np.float64)
    most = np.maximum.reduceat(csr.data, starts).astype(np.float64)
    size = counts[some]
    follows = any(_constant(most * size**power) for power in (0.0, 0.5, 1.0))
    if least.min() <= 0 or not np.allclose(least, most, rtol=1e-5) or not follows:
        return None
    return as_sets(csr)


def row_sizes(rows: Features) -> npt.NDArray[np.int64]:
    """Return the number of entries of each row that are not zero."""
    if sparse.issparse(rows):
        return np.diff(rows.indptr).astype(np.int64)
    return np.count_nonzero(rows, axis=1).astype(np.int64)


def _one_value(block: npt.NDArray[np.float32]) -> bool:
    most = block.max(axis=1, keepdims=True, initial=0)
    return bool(np.all((block == 0) | (block >= most * np.float32(1 - 1e-5))))


def _constant(values: npt.NDArray[np.float64]) -> bool:
    return bool(np.allclose(values, values[0], rtol=1e-4, atol=0))
