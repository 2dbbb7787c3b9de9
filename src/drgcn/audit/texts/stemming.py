"""Words brought to their stems, so that "network" and "Networks" are the same word."""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from typing import Any

from drgcn.audit.texts.title_features import split_words

# Misspelt words and numbers make vocabularies endless; an audit must not keep all of them.
_REMEMBERED = 1 << 18


def stemmed_words(text: str) -> list[str]:
    """The stems of a text's words in order, by the English Snowball stemmer.

    Words are runs of letters and digits in lower case. Typographic letters that stand for
    others (ligatures, full-width forms) become those others first.

    >>> stemmed_words("Neural-Network Theories")
    ['neural', 'network', 'theori']
    """
    return [stem(word) for word in split_words(unicodedata.normalize("NFKC", text))]


@lru_cache(maxsize=_REMEMBERED)
def stem(word: str) -> str:
    """The stem of a word in lower case."""
    return _stemmer().stemWord(word)


@cache
def _stemmer() -> Any:
    # NOTE[PAPER]: which stemmer was used is not stated ("basically transforms a word into its
    # original form"); here it is Snowball's for English, also known as Porter2.
    import snowballstemmer

    return snowballstemmer.stemmer("english")
