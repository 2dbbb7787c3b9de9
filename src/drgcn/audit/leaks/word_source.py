"""Where the words of a node can be looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from drgcn.data.splits import Mask


class WordSource(Protocol):
    """Says of all nodes at once whether they have a word; words are stems."""

    @property
    def readable(self) -> Mask:
        """The nodes of which any words are known."""

    def has_word(self, stem: str) -> Mask:
        """The nodes that have a word."""

    def has_phrase(self, stems: Sequence[str]) -> Mask:
        """The nodes that have words one directly after the other."""
