"""Nodes whose features are more alike than chance makes any pair of the dataset."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.duplicates.exact import exact_duplicates
from drgcn.audit.duplicates.feature_rows import bag_of_words, by_density, feature_rows, filled
from drgcn.audit.duplicates.independence_null import IndependenceNull, Similarity
from drgcn.audit.duplicates.minhash import similar_sets
from drgcn.audit.duplicates.overlap_chance import log_chance
from drgcn.audit.duplicates.pairs import DuplicatePairs, Evidence
from drgcn.audit.duplicates.random_projections import similar_directions
from drgcn.audit.duplicates.whitening import whitened
from drgcn.data.features import Features
from drgcn.errors import InputError

# Below this, nobody would call two rows near duplicates, however rare such a pair is by chance:
# half of the words in common, or a tenth of the mean squared length apart.
LEAST: Final[dict[Similarity, float]] = {"jaccard": 0.5, "dice": 0.9}

_CHUNK = 1 << 15


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
    and freed of their correlations (see ``whitening``). Candidates come from MinHash or
    random projections, never from all pairs.

    The threshold comes from rows whose columns are permuted independently (see
    ``independence_null``). A pair of sparse rows must also share more columns than
    chance gives two rows of their lengths (see ``overlap_chance``). Real columns do
    depend on each other, as words of one topic do: a pair above the threshold is not chance, but
    whether it is one paper twice, two versions, or two papers with one text, only reading tells.

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
        rare = log_chance(filled(rows), pairs) + math.log(max(every, 1)) <= math.log(
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
    for at in range(0, len(pairs), _CHUNK):
        a, b = pairs[at : at + _CHUNK].T
        if sparse.issparse(rows):
            product = np.asarray(rows[a].multiply(rows[b]).sum(axis=1), dtype=np.float64).ravel()
        else:
            product = np.einsum("ij,ij->i", rows[a], rows[b], dtype=np.float64)
        both = squares[a] + squares[b]
        whole = both - product if similarity == "jaccard" else both / 2
        score[at : at + _CHUNK] = np.divide(product, whole, out=np.zeros(len(a)), where=whole > 0)
    return score


def _squares(rows: Features) -> npt.NDArray[np.float64]:
    if sparse.issparse(rows):
        return np.asarray(rows.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
