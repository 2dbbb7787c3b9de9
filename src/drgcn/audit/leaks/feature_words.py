"""The words that a node has as features, where columns are named after words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from drgcn.audit.texts.stemming import stemmed_words
from drgcn.data.features import Features
from drgcn.data.splits import Mask
from drgcn.errors import InputError


class FeatureWords:
    """Words of a node's features (see :class:`drgcn.audit.leaks.word_source.WordSource`).

    A node has a word if a column whose name contains it is not zero. Order is known only within
    a column's name, as in columns named after two words.

    Args:
        x: Features, an array or a ``scipy.sparse.csr_array``.
        names: One name per column; ``None`` or ``""`` where it is not known.

    Raises:
        InputError: If there is not one name per column.
    """

    def __init__(self, x: Features, names: Sequence[str | None]) -> None:
        if isinstance(names, str) or len(names) != x.shape[1]:
            found = "a single string" if isinstance(names, str) else f"{len(names)} names"
            raise InputError(
                f"Expected one name for each of {x.shape[1]} feature columns; found {found}. "
                "Give None to columns whose word is not known."
            )
        self._columns = sparse.csc_array(x)
        self._names: list[str] = []
        index: defaultdict[str, list[int]] = defaultdict(list)
        for column, name in enumerate(names):
            if not isinstance(name, str | None):
                raise InputError(
                    f"Expected the name of column {column} to be a string; found "
                    f"{type(name).__name__}. Give None to columns whose word is not known."
                )
            stems = stemmed_words(name or "")
            self._names.append(f" {' '.join(stems)} ")
            for word in set(stems):
                index[word].append(column)
        self._index = dict(index)

    @property
    def readable(self) -> Mask:
        """The nodes with at least one column that is named and not zero."""
        return self._any([i for i, name in enumerate(self._names) if not name.isspace()])

    def columns(self, stem: str) -> list[int]:
        """The columns whose name contains a word."""
        return list(self._index.get(stem, []))

    def has_word(self, stem: str) -> Mask:
        """The nodes with a word among their features."""
        return self._any(self.columns(stem))

    def has_phrase(self, stems: Sequence[str]) -> Mask:
        """The nodes with a column whose name has these words one after the other."""
        if not stems:
            return self._any([])
        wanted = f" {' '.join(stems)} "
        return self._any([c for c in self.columns(stems[0]) if wanted in self._names[c]])

    def _any(self, columns: list[int]) -> Mask:
        chosen = self._columns[:, columns]
        mask = np.zeros(self._columns.shape[0], dtype=np.bool_)
        mask[chosen.indices[chosen.data != 0]] = True
        return mask
