"""What serving asks of an index: a list for each query, fast, and mostly right."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from drgcn.recommend.retrieval.top_items import TopItems


class AnnIndex(Protocol):
    """An index of items. ``effort`` trades time for recall; an exact index has none."""

    kind: str
    metric: str

    @property
    def num_items(self) -> int:
        """Number of items."""
        ...

    @property
    def dim(self) -> int:
        """Columns of a vector."""
        ...

    @property
    def effort(self) -> int | None:
        """How hard the index looks; ``None`` if it is exact."""
        ...

    @effort.setter
    def effort(self, value: int) -> None: ...

    def efforts(self, n: int) -> list[int]:
        """Efforts worth trying for lists of ``n``, rising."""
        ...

    def search(self, queries: Tensor, n: int) -> TopItems:
        """Lists of ``n`` items, best first."""
        ...
