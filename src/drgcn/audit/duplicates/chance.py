"""Bounds on similarity by chance: shared words, equal rows, independent columns.

Rows of two words are often equal, rows of twenty never: a threshold for all rows alike calls the
short ones duplicates. So each pair is held against its own lengths too.

If every column is permuted by itself, the frequencies of words and the values of features stay and
everything else goes. Two rows are then sums of independent columns. Both similarities here reach a
value t just if a sum over columns is not negative:

    Jaccard   u.v / (|u|^2 + |v|^2 - u.v) >= t   if   sum (1 + t) u v - t (u^2 + v^2) >= 0
    Dice      2 u.v / (|u|^2 + |v|^2)     >= t   if   sum u v - t/2 (u^2 + v^2) >= 0

Dice's is the cosine of rows of equal length, and less if lengths differ. (The cosine itself
divides each row by its length, which ties its columns to each other: it has no such sum.)
Chernoff's inequality bounds the probability of the sum by the product of the columns'
E exp(lambda z), for any lambda. So the number of chance pairs is bounded without drawing any, far
beyond what permutations could count: a million rows have 5e11 pairs, of which less than one may
be a false alarm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import minimize_scalar

from drgcn.data.features import Features

Floats = npt.NDArray[np.float64]
Similarity = Literal["jaccard", "dice"]

_SAMPLE = 1 << 16  # rows that frequencies are taken from
_NEWTON_STEPS = 5
_LARGEST_SCALE = 40.0
_CHUNK = 1 << 12
_HALVINGS = 13  # of an interval of length one: the threshold is exact to 0.0002
_CELLS = 1 << 20  # pairs of values looked at, all columns together
_ROUNDING = 1e-12


def log_chance(words: sparse.csr_array, pairs: npt.NDArray[np.int64]) -> Floats:
    """Upper bound of the log probability that a pair shares so many words or more.

    Row A has its words; row B has b words, each word k with probability f_k b / m by itself,
    where f_k is the share of rows with k and m the mean number of words. The bound is that of
    the likelier of the two ways round. Rare words in common weigh more than common ones.

    Args:
        words: Bags of words, zeros and ones (see :func:`as_sets`).
        pairs: Pairs of rows, ``[P, 2]``.
    """
    sizes = np.diff(words.indptr).astype(np.float64)
    frequency = np.bincount(words.indices, minlength=words.shape[1]) / max(words.shape[0], 1)
    each = frequency / max(float(sizes.mean()), 1e-12) if len(sizes) else frequency
    result = np.empty(len(pairs))
    for at in range(0, len(pairs), _CHUNK):
        a, b = pairs[at : at + _CHUNK].T
        shared = np.asarray(words[a].multiply(words[b]).sum(axis=1)).ravel()
        ways = (_bound(words[one], sizes[other], shared, each) for one, other in ((a, b), (b, a)))
        result[at : at + _CHUNK] = np.maximum(*ways)
    return result


def _bound(rows: sparse.csr_array, sizes: Floats, shared: Floats, each: Floats) -> Floats:
    count = rows.shape[0]
    owner = np.repeat(np.arange(count), np.diff(rows.indptr))
    probability = np.minimum(each[rows.indices] * sizes[owner], 1.0)

    def per_row(values: Floats) -> Floats:
        return np.bincount(owner, weights=values, minlength=count).astype(np.float64)

    # Chernoff's bound holds at every scale: a few Newton steps need not end at the best one.
    mean = np.maximum(per_row(probability), 1e-300)
    scale = np.clip(np.log(np.maximum(shared, 1e-300) / mean), 0.0, _LARGEST_SCALE)
    best = np.zeros(count)
    for _ in range(_NEWTON_STEPS):
        grown = probability * np.exp(scale)[owner]
        total = grown + 1 - probability
        best = np.minimum(best, per_row(np.log(total)) - scale * shared)
        tilted = grown / total
        slope = shared - per_row(tilted)
        curvature = np.maximum(per_row(tilted * (1 - tilted)), 1e-3)
        scale = np.clip(scale + np.clip(slope / curvature, -3.0, 3.0), 0.0, _LARGEST_SCALE)
    return best


def as_sets(rows: sparse.csr_array) -> sparse.csr_array:
    """Return ones where rows are not zero: each row as a set of columns."""
    ones = np.ones(rows.nnz, dtype=np.float32)
    return sparse.csr_array((ones, rows.indices, rows.indptr), shape=rows.shape)


def log_chance_of_equality(rows: Features, nodes: npt.NDArray[np.int64], seed: int = 0) -> Floats:
    """Upper bound of the log probability that another row equals each of some rows.

    Of sparse rows: that a row with as many non-zero entries has them in the same columns (see
    :func:`log_chance`). Of dense ones: that independent columns all take the row's
    values. A row of two frequent words, or of three yes or no columns, is often
    equal to another without being the same.

    Args:
        rows: Checked rows, dense or CSR as their content has it.
        nodes: The rows asked about.
        seed: Seed of the sample of rows that frequencies are taken from.
    """
    if sparse.issparse(rows):
        return log_chance(as_sets(rows), np.stack([nodes, nodes], axis=1))
    sample = rows
    if len(rows) > _SAMPLE:
        chosen = np.random.default_rng(seed).choice(len(rows), _SAMPLE, replace=False)
        sample = rows[np.sort(chosen)]
    total = np.zeros(len(nodes))
    for column in range(rows.shape[1]):
        values = np.sort(sample[:, column])
        asked = rows[nodes, column]
        count = np.searchsorted(values, asked, "right") - np.searchsorted(values, asked)
        # One more than was seen, since a value that no row of the sample has is possible still.
        total += np.log((count + 1) / (len(values) + 1))
    return total


@dataclass(frozen=True, eq=False)
class IndependenceNull:
    """Rows with independent columns.

    Attributes:
        similarity: What is measured.
        filled: Share of rows in which a column is not zero.
        values: Values of a column where it is not zero, ``[columns, cells]``: the mean over each
            of some cells of its distribution.
        weights: Share of the values in each cell.
    """

    similarity: Similarity
    filled: Floats
    values: Floats
    weights: Floats

    @classmethod
    def of_words(cls, words: sparse.csr_array) -> IndependenceNull:
        """The null of bags of words under Jaccard similarity."""
        counts = np.bincount(words.indices, minlength=words.shape[1])
        filled = counts[counts > 0] / max(words.shape[0], 1)
        return cls("jaccard", filled, np.ones((len(filled), 1)), np.ones(1))

    @classmethod
    def of_rows(cls, rows: Features, seed: int) -> IndependenceNull:
        """The null of any rows under Dice's similarity.

        The distribution of a column comes from all rows, or a sample of large data, as means over
        cells. Cells get smaller towards both ends, since rows that share an extreme value are
        what makes pairs similar.
        """
        if rows.shape[0] > _SAMPLE:
            chosen = np.random.default_rng(seed).choice(rows.shape[0], _SAMPLE, replace=False)
            rows = rows[np.sort(chosen)]
        columns = sparse.csc_array(rows)
        columns.eliminate_zeros()
        counts = np.diff(columns.indptr)
        used = np.flatnonzero(counts)
        middle = int(np.clip(np.sqrt(_CELLS / max(len(used), 1)) - 24, 8, 40))
        edges = _edges(max(rows.shape[0], 2), middle)
        values = np.empty((len(used), len(edges) - 1))
        for place, column in enumerate(used):
            entries = np.sort(columns.data[columns.indptr[column] : columns.indptr[column + 1]])
            values[place] = _cell_means(entries.astype(np.float64), edges)
        return cls("dice", counts[used] / max(rows.shape[0], 1), values, np.diff(edges))

    def log_tail(self, similarity: float) -> float:
        """Upper bound of the log probability that two rows are this similar or more."""
        t = similarity
        product, square = (1 + t, t) if self.similarity == "jaccard" else (1.0, t / 2)
        squares = self.values**2
        both = product * self.values[:, :, None] * self.values[:, None, :]
        both -= square * (squares[:, :, None] + squares[:, None, :])
        one = -square * squares
        p = self.filled
        # Two rows of zeros alone are no pair, but their sum is zero: they are taken off.
        empty = 2 * float(np.log1p(-np.minimum(p, 1 - 1e-12)).sum())

        def bound(log_scale: float) -> float:
            scale = np.exp(log_scale)
            moments = (1 - p) ** 2 + 2 * p * (1 - p) * (np.exp(scale * one) @ self.weights)
            with np.errstate(over="ignore"):
                moments += p**2 * (np.exp(scale * both) @ self.weights @ self.weights)
                total = float(min(np.log(moments).sum(), 1e9))
            return total + float(np.log(max(-np.expm1(empty - total), _ROUNDING)))

        best = minimize_scalar(bound, bounds=(-7, 14), method="bounded", options={"maxiter": 40})
        return min(float(best.fun), 0.0)

    def threshold(self, pairs: float, expected: float) -> float:
        """The least similarity that at most ``expected`` of so many chance pairs reach.

        Infinite if no similarity below one does: such rows are too short to tell.
        """
        allowed = np.log(expected) - np.log(max(pairs, 1.0))
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.log_tail(middle) <= allowed else (middle, high)
        return high if high < 1 else np.inf


def _edges(count: int, middle: int) -> Floats:
    """Levels from 0 to 1: in the tails each cell holds twice as many as the one outside it."""
    tail = [0.0]
    level = 1 / count
    while level < 1 / 16:
        tail.append(level)
        level *= 2
    low = np.array(tail)
    return np.concatenate([low, np.linspace(1 / 16, 15 / 16, middle + 1), 1 - low[::-1]])


def _cell_means(ordered: Floats, edges: Floats) -> Floats:
    """Means of sorted values between levels, values being steps of equal width."""
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    total = np.interp(edges * len(ordered), np.arange(len(ordered) + 1), sums)
    return np.diff(total) / np.diff(edges) / len(ordered)
