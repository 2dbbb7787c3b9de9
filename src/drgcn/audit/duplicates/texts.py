"""Pairs of nodes with the same words, or titles that differ in a few letters."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.audit.duplicates.chance import log_chance
from drgcn.audit.duplicates.features import DuplicatePairs, exact_duplicates, near_duplicates
from drgcn.audit.duplicates.hashing import similar_sets
from drgcn.audit.texts import split_words
from drgcn.errors import InputError

# Texts of at most so many different words are titles: a wrong letter costs them many words.
_TITLE = 25
_TITLE_LIKENESS = 0.7
# With fewer words a text is a phrase that many share, such as "technical report".
_SHORTEST = 5
# Far above any abstract; a whole library in one field is a mistake of the file.
LONGEST = 1 << 26
_ENDINGS = re.compile(r"(?<=[a-z]{3})(?:ations?|ings?|edly|ed|ies|es|s|ly)$")


@dataclass(frozen=True, eq=False)
class TextDuplicates:
    """Texts that are alike.

    Attributes:
        pairs: Pairs with their Jaccard similarity, of all words or of the letters of titles,
            whichever is more.
        texts: How many nodes have a text of five different content words; the others are in no
            pair.
        threshold: The least Jaccard similarity of the words of a pair of long texts.
        null_quantile: As in :class:`drgcn.audit.duplicates.features.NearDuplicates`, of words.
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

    Words are compared as sets, in lower case and without punctuation, stop words and numbers, with
    the thresholds of :func:`~drgcn.audit.duplicates.features.near_duplicates`. Titles, texts of
    up to 25 different words, are compared by runs of three letters too. Such a pair needs a
    similarity of 0.7 and, like every pair, more words in common than chance gives texts of their
    lengths. Texts of fewer than five words are left out: such phrases recur without any paper
    recurring.

    Args:
        texts: One text per node, empty where there is none.
        expected_false: Expected number of false pairs in the whole dataset, at most.
        least: Similarity of words below which no pair is reported.
        stem: Whether endings of words are cut off.
        seed: Seed of the hash functions.

    Raises:
        InputError: If a text is no string, or too long.
    """
    split = [plain_words(text, stem) for text in checked_texts(texts)]
    known = np.array(
        [n for n, words in enumerate(split) if len(set(words)) >= _SHORTEST], np.int64
    )
    split = [split[node] for node in known]
    words = set_matrix(split)
    allowed = math.log(expected_false) - math.log(max(len(known) * (len(known) - 1) / 2, 1))
    near = near_duplicates(words, expected_false=expected_false, least=least, seed=seed)
    equal = exact_duplicates(words).pairs.nodes
    equal = equal[log_chance(words, equal) <= allowed]
    titles = np.flatnonzero(np.diff(words.indptr) <= _TITLE)
    edited, likeness = _edited([split[place] for place in titles], seed)
    edited = titles[edited]
    rare = log_chance(words, edited) <= allowed
    pairs = np.concatenate([equal, near.pairs.nodes, edited[rare]])
    score = np.concatenate([np.ones(len(equal)), near.pairs.score, likeness[rare]])
    return TextDuplicates(
        _best(known[pairs], score), len(known), near.threshold, near.null_quantile, expected_false
    )


def _edited(
    titles: Sequence[Sequence[str]], seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    runs = set_matrix([pieces(words) for words in titles])
    # Equal sets of runs once, and hung on the first: a thousand equal titles are no million pairs.
    equal = exact_duplicates(runs)
    chosen = np.flatnonzero(equal.first == np.arange(len(titles)))
    pairs = chosen[similar_sets(runs[chosen], _TITLE_LIKENESS, seed)]
    likeness = _jaccard(runs, pairs)
    alike = likeness >= _TITLE_LIKENESS
    both = np.concatenate([equal.pairs.nodes, pairs[alike]])
    return both, np.concatenate([equal.pairs.score, likeness[alike]])


def _jaccard(sets: sparse.csr_array, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    if not len(pairs):
        return np.empty(0)
    a, b = pairs.T
    sizes = np.diff(sets.indptr)
    shared = np.asarray(sets[a].multiply(sets[b]).sum(axis=1), dtype=np.float64).ravel()
    return shared / (sizes[a] + sizes[b] - shared)


def _best(pairs: npt.NDArray[np.int64], score: npt.NDArray[np.float64]) -> DuplicatePairs:
    """Return each pair once, with its best score."""
    pairs = np.sort(pairs, axis=1)
    order = np.lexsort((-score, pairs[:, 1], pairs[:, 0]))
    pairs, score = pairs[order], score[order]
    new = np.ones(len(pairs), dtype=np.bool_)
    new[1:] = (np.diff(pairs, axis=0) != 0).any(axis=1)
    return DuplicatePairs("text", pairs[new], score[new])


def checked_texts(texts: Sequence[str], nodes: int | None = None) -> tuple[str, ...]:
    """Return the texts as a tuple, or raise unless each is a string of bearable length.

    Raises:
        InputError: If a text is something else (bytes, say), or there are too few or too many.
    """
    if isinstance(texts, str):
        raise InputError("Expected one text per node; found a single text. Give a list of texts.")
    for node, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"Expected texts as str; found {type(text).__name__} for node {node}. Decode "
                "bytes first, and give an empty text where there is none."
            )
        if len(text) > LONGEST:
            raise InputError(
                f"Expected texts of at most {LONGEST:,} characters; found {len(text):,} for node "
                f"{node}. Give its title and abstract, or its beginning."
            )
    if nodes is not None and len(texts) != nodes:
        raise InputError(
            f"Expected one text for each of {nodes} nodes; found {len(texts)}. Give an empty "
            "text where there is none."
        )
    return tuple(texts)


def plain_words(text: str, stem: bool = True) -> list[str]:
    """Return words in lower case without accents, punctuation, stop words and bare numbers.

    Args:
        text: A text; forms of one letter (ligatures, wide letters, accents) become one.
        stem: Whether endings such as -s, -ed and -ing are cut off. Crude, and enough to compare.

    Example:
        >>> plain_words("The Na\u00efve-Bayes Classifiers")
        ['naive', 'baye', 'classifier']
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    split = unicodedata.normalize("NFKD", text)
    letters = "".join(letter for letter in split if not unicodedata.combining(letter))
    words = [
        word
        for word in split_words(letters)
        if word not in ENGLISH_STOP_WORDS and not word.isdecimal()
    ]
    return [_ENDINGS.sub("", word) for word in words] if stem else words


def pieces(words: Iterable[str]) -> list[str]:
    """Return runs of three letters of the words with a blank on either side.

    Words with one wrong letter share most of their pieces.
    """
    return [
        padded[at : at + 3]
        for padded in (f" {word} " for word in words)
        for at in range(len(padded) - 2)
    ]


def set_matrix(parts: Sequence[Iterable[str]]) -> sparse.csr_array:
    """Return a matrix of zeros and ones: texts by words (or pieces) in alphabetical order."""
    sets = [sorted(set(words)) for words in parts]
    vocabulary = {word: column for column, word in enumerate(sorted(set().union(*sets)))}
    indptr = np.cumsum([0, *map(len, sets)])
    indices = np.array([vocabulary[word] for words in sets for word in words], dtype=np.int64)
    ones = np.ones(len(indices), dtype=np.float32)
    return sparse.csr_array((ones, indices, indptr), shape=(len(sets), len(vocabulary)))
