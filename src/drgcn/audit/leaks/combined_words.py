"""Words of a node wherever they stand: in its text or among its features."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from drgcn.audit.leaks.words import WordSource
from drgcn.data.splits import Mask


class CombinedWords:
    """Several sources as one: a node has a word if any source says so.

    Args:
        *sources: At least one source.
    """

    def __init__(self, *sources: WordSource) -> None:
        self._sources = sources

    @property
    def readable(self) -> Mask:
        """The nodes of which any source knows words."""
        return self._any(lambda source: source.readable)

    def has_word(self, stem: str) -> Mask:
        """The nodes that have a word in any source."""
        return self._any(lambda source: source.has_word(stem))

    def has_phrase(self, stems: Sequence[str]) -> Mask:
        """The nodes that have words one after the other within one source."""
        return self._any(lambda source: source.has_phrase(stems))

    def _any(self, ask: Callable[[WordSource], Mask]) -> Mask:
        return np.any([ask(source) for source in self._sources], axis=0)
