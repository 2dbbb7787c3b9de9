"""Texts as sets of words, or of pieces of words, for comparing them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import sparse

from drgcn.audit.texts.title_features import split_words
from drgcn.errors import InputError

# Far above any abstract; a whole library in one field is a mistake of the file.
LONGEST = 1 << 26
_ENDINGS = re.compile(r"(?<=[a-z]{3})(?:ations?|ings?|edly|ed|ies|es|s|ly)$")


def checked_texts(texts: Sequence[str], nodes: int | None = None) -> tuple[str, ...]:
    """The texts, once every one is a string of bearable length.

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
    """Words in lower case without accents, punctuation, stop words and bare numbers.

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
    """Runs of three letters of the words with a blank on either side.

    Words with one wrong letter share most of their pieces.
    """
    return [
        padded[at : at + 3]
        for padded in (f" {word} " for word in words)
        for at in range(len(padded) - 2)
    ]


def set_matrix(parts: Sequence[Iterable[str]]) -> sparse.csr_array:
    """Zeros and ones: which text has which word or piece; columns in alphabetical order."""
    sets = [sorted(set(words)) for words in parts]
    vocabulary = {word: column for column, word in enumerate(sorted(set().union(*sets)))}
    indptr = np.cumsum([0, *map(len, sets)])
    indices = np.array([vocabulary[word] for words in sets for word in words], dtype=np.int64)
    ones = np.ones(len(indices), dtype=np.float32)
    return sparse.csr_array((ones, indices, indptr), shape=(len(sets), len(vocabulary)))
