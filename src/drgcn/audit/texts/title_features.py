"""Features of a text from its words: their mean vector, and two lengths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from drgcn.audit.texts.word_vectors import WordVectors

_POSSESSIVE = re.compile(r"['’]s\b")
_WORD = re.compile(r"[^\W_]+")


def title_features(texts: Sequence[str], vectors: WordVectors) -> npt.NDArray[np.float32]:
    """Mean word vector without stop words, number of words, number without stop words.

    Words without a vector count towards the lengths but not the mean. A text without any known
    word has the mean zero.

    Args:
        texts: One text per node.
        vectors: Vectors of the words (see :func:`words_of`).

    Returns:
        A matrix ``[texts, vectors.width + 2]``.
    """
    features = np.zeros((len(texts), vectors.width + 2), dtype=np.float32)
    stop = _stop_words()
    for row, text in zip(features, texts, strict=True):
        words = split_words(text)
        telling = [word for word in words if word not in stop]
        known = [vectors.index[word] for word in telling if word in vectors]
        if known:
            # NOTE[PAPER]: whether a word said twice counts twice is not stated; here it does.
            row[:-2] = vectors.matrix[known].mean(axis=0, dtype=np.float64)
        # NOTE[PAPER]: the unit of "the length of the title" is not stated; here it is words.
        row[-2:] = len(words), len(telling)
    return features


def words_of(texts: Iterable[str]) -> set[str]:
    """All words of some texts that are no stop words: those whose vectors are needed."""
    words: set[str] = set()
    for text in texts:
        words.update(split_words(text))
    return words - _stop_words()


def split_words(text: str) -> list[str]:
    """The words of a text in order: runs of letters and digits in lower case.

    >>> split_words("Bayes's Rule: a case-based view")
    ['bayes', 'rule', 'a', 'case', 'based', 'view']
    """
    # NOTE[PAPER]: neither the file of GloVe-300 vectors nor the splitting into words is stated;
    # lower case and words without punctuation are found in all of GloVe's files.
    return _WORD.findall(_POSSESSIVE.sub("", text.lower()))


def _stop_words() -> frozenset[str]:
    # NOTE[PAPER]: the list of stop words is not stated; scikit-learn's English list is taken.
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)
