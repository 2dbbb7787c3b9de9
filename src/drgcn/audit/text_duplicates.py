"""Nodes whose texts are the same but for small edits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.duplicate_pairs import DuplicatePairs
from drgcn.audit.exact_duplicates import exact_duplicates
from drgcn.audit.minhash import similar_sets
from drgcn.audit.near_duplicates import near_duplicates
from drgcn.audit.overlap_chance import log_chance
from drgcn.audit.text_words import checked_texts, pieces, plain_words, set_matrix

# Texts of at most so many words are titles: a wrong letter costs them a large part of the words.
_TITLE = 25
_TITLE_LIKENESS = 0.7


@dataclass(frozen=True, eq=False)
class TextDuplicates:
    """Texts that are alike.

    Attributes:
        pairs: Pairs with their Jaccard similarity, of words or (titles) of pieces of words.
        texts: How many nodes have a text with a telling word; the others are in no pair.
        threshold: The least Jaccard similarity of the words of a pair of long texts.
        null_quantile: As in :class:`drgcn.audit.near_duplicates.NearDuplicates`, of words.
        expected_false: Expected number of false pairs in the whole dataset, at most.
    """

    pairs: DuplicatePairs
    texts: int
    threshold: float
    null_quantile: float
    expected_false: float


def text_duplicates(
    texts: Sequence[str],
    *,
    expected_false: float = 0.05,
    least: float = 0.5,
    stem: bool = True,
    seed: int = 0,
) -> TextDuplicates:
    """Find texts with the same words, and titles with the same words but for some letters.

    Words are compared as sets, in lower case and without punctuation and stop words, with the
    thresholds of :func:`drgcn.audit.near_duplicates.near_duplicates`. Texts of up to 25 words are
    compared by runs of three letters too, where a pair needs a similarity of 0.7 and, like every
    pair, more words in common than chance gives texts of their lengths.

    Args:
        texts: One text per node, empty where there is none.
        expected_false: Expected number of false pairs in the whole dataset, at most.
        least: Similarity of words below which no pair is reported.
        stem: Whether endings of words are cut off.
        seed: Seed of the hash functions.

    Raises:
        InputError: If a text is no string, or too long.
    """
    texts = checked_texts(texts)
    words = set_matrix(texts, lambda text: plain_words(text, stem))
    sizes = np.diff(words.indptr)
    known = np.flatnonzero(sizes)
    words = words[known]
    near = near_duplicates(words, expected_false=expected_false, least=least, seed=seed)
    every = math.log(max(len(known) * (len(known) - 1) / 2, 1)) - math.log(expected_false)
    equal = exact_duplicates(words).pairs.nodes
    equal = equal[log_chance(words, equal) + every <= 0]
    titles = np.flatnonzero(sizes[known] <= _TITLE)
    edited, likeness = _edited([texts[node] for node in known[titles]], stem, seed)
    edited = titles[edited]
    rare = log_chance(words, edited) + every <= 0
    pairs = np.concatenate([known[equal], known[near.pairs.nodes], known[edited[rare]]])
    score = np.concatenate([np.ones(len(equal)), near.pairs.score, likeness[rare]])
    return TextDuplicates(
        _best(pairs, score), len(known), near.threshold, near.null_quantile, expected_false
    )


def _edited(
    titles: Sequence[str], stem: bool, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    runs = set_matrix(titles, lambda text: pieces(plain_words(text, stem)))
    # Equal sets of runs once: a thousand equal titles are no million pairs.
    first = exact_duplicates(runs).first
    chosen = np.flatnonzero(first == np.arange(len(first)))
    pairs = chosen[similar_sets(runs[chosen], _TITLE_LIKENESS, seed)]
    likeness = _jaccard(runs, pairs)
    alike = likeness >= _TITLE_LIKENESS
    return pairs[alike], likeness[alike]


def _jaccard(sets: sparse.csr_array, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    if not len(pairs):
        return np.empty(0)
    a, b = pairs.T
    sizes = np.diff(sets.indptr)
    shared = np.asarray(sets[a].multiply(sets[b]).sum(axis=1), dtype=np.float64).ravel()
    return shared / (sizes[a] + sizes[b] - shared)


def _best(pairs: npt.NDArray[np.int64], score: npt.NDArray[np.float64]) -> DuplicatePairs:
    """Each pair once, with its best score."""
    pairs = np.sort(pairs, axis=1)
    order = np.lexsort((-score, pairs[:, 1], pairs[:, 0]))
    pairs, score = pairs[order], score[order]
    new = np.ones(len(pairs), dtype=np.bool_)
    new[1:] = (np.diff(pairs, axis=0) != 0).any(axis=1)
    return DuplicatePairs("text", pairs[new], score[new])
