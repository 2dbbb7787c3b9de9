"""The words of every node's text, looked up by word."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from drgcn.audit.texts.stemming import stemmed_words
from drgcn.data.splits import Mask
from drgcn.errors import InputError


class TextIndex:
    """Stemmed words of texts (see :class:`drgcn.audit.leaks.word_source.WordSource`).

    Args:
        texts: One text per node; ``None`` or a text without words where there is none.
        nodes: How many nodes there are.

    Raises:
        InputError: If there is not one text per node.
    """

    def __init__(self, texts: Sequence[str | None], nodes: int) -> None:
        if isinstance(texts, str) or len(texts) != nodes:
            found = "a single string" if isinstance(texts, str) else f"{len(texts)} texts"
            raise InputError(
                f"Expected one text for each of {nodes} nodes; found {found}. Give an empty text "
                "to nodes that have none."
            )
        self._texts: list[str] = []
        index: defaultdict[str, list[int]] = defaultdict(list)
        for node, text in enumerate(texts):
            if not isinstance(text, str | None):
                raise InputError(
                    f"Expected the text of node {node} to be a string; found "
                    f"{type(text).__name__}. Give an empty text to nodes that have none."
                )
            stems = stemmed_words(text or "")
            # Blanks at both ends, so that a phrase is found at whole words only.
            self._texts.append(f" {' '.join(stems)} ")
            for word in set(stems):
                index[word].append(node)
        self._index = dict(index)

    @property
    def readable(self) -> Mask:
        """The nodes whose text has at least one word."""
        return np.array([not text.isspace() for text in self._texts], dtype=np.bool_)

    def has_word(self, stem: str) -> Mask:
        """The nodes with a word in their text."""
        mask = np.zeros(len(self._texts), dtype=np.bool_)
        mask[self._index.get(stem, [])] = True
        return mask

    def has_phrase(self, stems: Sequence[str]) -> Mask:
        """The nodes with words in their text one directly after the other."""
        mask = np.zeros(len(self._texts), dtype=np.bool_)
        if stems:
            wanted = f" {' '.join(stems)} "
            rarest = min((self._index.get(stem, []) for stem in stems), key=len)
            mask[[node for node in rarest if wanted in self._texts[node]]] = True
        return mask
