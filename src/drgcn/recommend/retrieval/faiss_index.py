"""Indexes of faiss behind the small protocol that serving uses."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from drgcn.errors import InputError, how_to_install
from drgcn.recommend.retrieval.item_blocks import checked_vectors
from drgcn.recommend.retrieval.seen_items import is_seen
from drgcn.recommend.retrieval.top_items import TopItems
from drgcn.sampling import CSRGraph

KINDS = ("flat", "ivf", "hnsw")
_FLAT_ITEMS = 200_000  # up to which looking at all of them is fast enough
_LINKS = 32  # of a node in HNSW
_LEAST_EFFORT = 16  # of HNSW
_MOST_EFFORT = 4096


class FaissIndex:
    """A faiss index: ``flat`` looks at every item, ``ivf`` at some cells, ``hnsw`` along links.

    Attributes:
        index: The index of faiss.
        kind: One of :data:`KINDS`.
        metric: ``"ip"`` or ``"l2"``.
    """

    def __init__(self, index: Any, kind: str, metric: str) -> None:
        self.index, self.kind, self.metric = index, kind, metric

    @classmethod
    def build(
        cls, items: Tensor, kind: str = "auto", metric: str = "ip", seed: int = 0
    ) -> FaissIndex:
        """An index of item vectors ``[n, d]``.

        Args:
            items: The vectors.
            kind: ``flat``, ``ivf``, ``hnsw``, or ``auto``: flat up to 200,000 items, else ivf.
            metric: ``"ip"`` or ``"l2"``.
            seed: For the cells of ``ivf``.
        """
        faiss = _faiss()
        items = checked_vectors(items, "items").cpu()
        if kind == "auto":
            kind = "flat" if len(items) <= _FLAT_ITEMS else "ivf"
        if kind not in KINDS or metric not in ("ip", "l2") or not len(items):
            raise InputError(
                f"Expected at least one item, a kind of auto, {', '.join(KINDS)}, and metric ip "
                f"or l2; found {len(items)} items, {kind!r} and {metric!r}."
            )
        measure = faiss.METRIC_INNER_PRODUCT if metric == "ip" else faiss.METRIC_L2
        if kind == "ivf":
            index = faiss.index_factory(items.size(1), f"IVF{cells(len(items))},Flat", measure)
            index.cp.seed = seed
            index.train(items.numpy())
        else:
            name = "Flat" if kind == "flat" else f"HNSW{_LINKS},Flat"
            index = faiss.index_factory(items.size(1), name, measure)
        index.add(items.numpy())
        return cls(index, kind, metric)

    @property
    def num_items(self) -> int:
        """Number of items."""
        return int(self.index.ntotal)

    @property
    def dim(self) -> int:
        """Columns of a vector."""
        return int(self.index.d)

    @property
    def effort(self) -> int | None:
        """Cells looked at by ``ivf``, candidates held by ``hnsw``; ``flat`` has none."""
        if self.kind == "flat":
            return None
        return int(self.index.nprobe if self.kind == "ivf" else self.index.hnsw.efSearch)

    @effort.setter
    def effort(self, value: int) -> None:
        if self.kind == "flat" or value < 1:
            raise InputError(f"Expected an effort of at least one for ivf or hnsw; found {value}.")
        if self.kind == "ivf":
            self.index.nprobe = value
        else:
            self.index.hnsw.efSearch = value

    def efforts(self, n: int) -> list[int]:
        """Doubling efforts, up to all cells of ``ivf``; none for ``flat``."""
        if self.kind == "flat":
            return []
        most = self.index.nlist if self.kind == "ivf" else _MOST_EFFORT
        least = 1 if self.kind == "ivf" else max(_LEAST_EFFORT, 2 ** (n - 1).bit_length())
        return [2**step for step in range(32) if least <= 2**step <= most]

    def search(
        self,
        queries: Tensor,
        n: int,
        *,
        exclude: CSRGraph | None = None,
        exclude_rows: Tensor | None = None,
    ) -> TopItems:
        """Lists of ``n`` items for each query, best first, on the CPU.

        Args:
            queries: ``[q, d]``.
            n: Length of a list; -1 fills what the index did not find.
            exclude: Items that must not come out, by sorted row: so many more are asked for.
            exclude_rows: The row of each query; needed with ``exclude``.
        """
        queries = checked_vectors(queries, "queries").cpu()
        if queries.size(1) != self.dim or n < 1:
            raise InputError(
                f"Expected queries of {self.dim} columns and n of at least one; found "
                f"{queries.size(1)} columns and n = {n}."
            )
        if exclude is None:
            return self._found(queries, n)
        if exclude_rows is None or len(exclude_rows) != len(queries):
            raise InputError("Expected exclude_rows, the row of exclude of each query.")
        more = int(exclude.degree[exclude_rows].max()) if len(queries) else 0
        top = self._found(queries, min(n + more, max(n, self.num_items)))
        seen = is_seen(exclude, exclude_rows, top.items)
        place = seen.long().sort(dim=1, stable=True).indices[:, :n]
        seen, items = seen.gather(1, place), top.items.gather(1, place)
        scores = top.scores.gather(1, place)
        return TopItems(scores.masked_fill(seen, -torch.inf), items.masked_fill(seen, -1))

    def _found(self, queries: Tensor, n: int) -> TopItems:
        numbers, items = self.index.search(queries.numpy(), n)
        scores, found = torch.from_numpy(numbers), torch.from_numpy(items)
        scores = scores if self.metric == "ip" else -scores
        return TopItems(scores.masked_fill(found < 0, -torch.inf), found)


def cells(num_items: int) -> int:
    """Cells of ``ivf``: about four square roots, and at least 39 items to learn each from."""
    wanted = round(4 * num_items**0.5).bit_length() - 1
    return int(2 ** max(0, min(wanted, (num_items // 39).bit_length() - 1)))


def _faiss() -> ModuleType:
    try:
        import faiss
    except ImportError:
        raise InputError(
            f"Expected faiss for an index; found none. {how_to_install('recommend')}"
        ) from None
    module: ModuleType = faiss
    return module
