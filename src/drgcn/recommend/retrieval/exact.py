"""The exact N best items of every query, without ever holding all scores.

Stage 1 scores all items with rounded vectors and keeps one maximum per block; stage 2 scores the
items of the blocks with the largest maxima in 32-bit floats. A certificate per query says whether
any other block could hold a better item; where it might, more blocks are taken. The proof is in
docs/recommend_inside.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.errors import InputError
from drgcn.kernels import triton_available
from drgcn.recommend.retrieval.blocks import (
    WIDEST,
    ErrorBound,
    ItemBlocks,
    RoundedVectors,
    Tiling,
    checked_vectors,
)
from drgcn.recommend.retrieval.ranking import (
    NOTHING,
    TopItems,
    from_ranking_key,
    is_seen,
    ranking_key,
)
from drgcn.sampling import CSRGraph

if triton_available():
    from drgcn.recommend.retrieval.kernels import keys_by_kernel, maxima_by_kernel
else:
    keys_by_kernel = maxima_by_kernel = None  # type: ignore[assignment]

_SCORES = 2**24  # held at a time where there is no kernel
_NUMBERS = 2**24  # gathered at a time where there is no kernel
_EXTRA = 10  # blocks beyond n in the first choice
_WIDER = 8  # times as many in the second
_KEYS = 4  # times n: keys kept for a query in the first choice
_SCAN = 2**13  # items scored at a time where all are
_SCANNING = 2**12  # and queries


def pair_scores(queries: Tensor, items: Tensor, metric: str) -> Tensor:
    """Inner products, or minus squared distances, in 32-bit floats and one fixed order.

    Halves are added to each other until one number is left. A matrix product adds in an order
    that depends on shapes, so that a pair's score would depend on who else was asked for.

    Args:
        queries: ``[..., d]``.
        items: ``[..., d]``, whose shape is broadcast against that of the queries.
        metric: ``"ip"`` or ``"l2"``.
    """
    terms = queries * items if metric == "ip" else -(queries - items).square()
    while (width := terms.size(-1)) > 1:
        half = (width + 1) // 2
        left, right = terms[..., :half], terms[..., half:]
        terms = left + F.pad(right, (0, 2 * half - width))
    return terms[..., 0]


@dataclass(frozen=True, eq=False)
class BlockChoice:
    """The blocks chosen for each query.

    Attributes:
        blocks: ``[q, count]``, those with the largest maxima first.
        maxima: Their maxima ``[q, count]``.
        outside: The largest maximum that was not chosen ``[q]``; minus infinity if all were.
    """

    blocks: Tensor
    maxima: Tensor
    outside: Tensor

    @classmethod
    def of(cls, maxima: Tensor, tops: Tensor, count: int, num_blocks: int) -> BlockChoice:
        """Choose ``count`` blocks by two short searches instead of one long one.

        The blocks wanted lie in the ``count`` chunks with the largest maxima, for the same
        reason as items do in blocks.

        Args:
            maxima: By block ``[q, chunks * chunk_blocks]``.
            tops: By chunk ``[q, chunks]``.
            count: How many to choose.
            num_blocks: How many blocks there are; those beyond are padding.
        """
        (size, chunks), width = tops.shape, maxima.size(1) // tops.size(1)
        count = min(count, num_blocks)
        left_out = maxima.new_full((size, 1), -torch.inf)
        if count + 1 < chunks:
            best, chunk = tops.topk(count + 1, dim=1)
            left_out, chunk = best[:, -1:], chunk[:, :-1]
            place = chunk[:, :, None].expand(-1, -1, width)
            maxima = maxima.view(size, chunks, width).gather(1, place).flatten(1)
        else:
            chunk = torch.arange(chunks, device=tops.device).expand(size, -1)
        best, place = maxima.topk(min(count + 1, maxima.size(1)), dim=1)
        outside = torch.cat([left_out, best[:, count:]], dim=1).amax(dim=1)
        best, place = best[:, :count], place[:, :count]
        return cls(chunk.gather(1, place // width) * width + place % width, best, outside)


def block_maxima(queries: RoundedVectors, blocks: ItemBlocks) -> tuple[Tensor, Tensor]:
    """Maxima of the rounded scores ``[q, chunks * chunk_blocks]``, and by chunk ``[q, chunks]``.

    Blocks without an item have minus infinity.
    """
    tiling = blocks.tiling
    kernel = maxima_by_kernel is not None and queries.values.is_cuda and blocks.dim <= WIDEST
    if kernel and tiling.dtype != "float32":
        maxima, tops = maxima_by_kernel(queries, blocks)
    else:
        maxima, tops = maxima_by_torch(queries, blocks)
    maxima[:, blocks.num_blocks :] = -torch.inf
    return maxima, tops


def maxima_by_torch(queries: RoundedVectors, blocks: ItemBlocks) -> tuple[Tensor, Tensor]:
    """The same numbers by matrix products of 32-bit floats, in which rounded values are exact."""
    tiling, size = blocks.tiling, len(queries.values)
    if tiling.dtype == "float32" and torch.get_float32_matmul_precision() != "highest":
        raise InputError(
            "Expected products of 32-bit floats as such; found float32_matmul_precision "
            f"{torch.get_float32_matmul_precision()!r}, whose error is not known. Set it to "
            "'highest', or cut the items with a Tiling of dtype bfloat16."
        )
    shape = (size, -1, tiling.fold, tiling.items // tiling.columns, tiling.columns)
    maxima = torch.empty(
        size, blocks.num_chunks * tiling.chunk_blocks, device=queries.values.device
    )
    left = queries.values.float()
    step = tiling.chunk_items * max(1, _SCORES // (tiling.chunk_items * max(size, 1)))
    for first in range(0, len(blocks.rounded), step):
        right = blocks.rounded[first : first + step, : blocks.dim].float().T
        start = first // tiling.block
        found = maxima[:, start : start + right.size(1) // tiling.block]
        scores = torch.mm(left, right, out=found if tiling.block == 1 else None)
        if blocks.bias is not None:
            scores += blocks.bias[first : first + step] * _ratio(queries, blocks)
        if tiling.block > 1:
            found.copy_(scores.view(shape).amax(dim=(2, 4)).view(size, -1))
    return maxima, maxima.view(size, blocks.num_chunks, tiling.chunk_blocks).amax(dim=2)


def _ratio(queries: RoundedVectors, blocks: ItemBlocks) -> float:
    return float(queries.scale[0, 0]) / blocks.scale


def rescored(
    queries: Tensor, items: ItemBlocks, blocks: Tensor, floor: Tensor, capacity: int
) -> tuple[Tensor, Tensor]:
    """Ranking keys of the items in ``blocks[q]`` whose score is at least ``floor[q]``.

    Args:
        queries: ``[q, d]``.
        items: The items.
        blocks: ``[q, count]``, no block twice in a row.
        floor: ``[q]``.
        capacity: Keys kept for a query.

    Returns:
        Keys in no particular order ``[q, at most capacity]``, filled up with ``NOTHING``, and
        whether a query's keys are all there ``[q]``.
    """
    capacity = min(capacity, blocks.size(1) * items.tiling.block)
    if keys_by_kernel is not None and queries.is_cuda and items.dim <= WIDEST:
        return keys_by_kernel(queries, items, blocks, floor, capacity)
    return keys_by_torch(queries, items, blocks, floor, capacity)


def keys_by_torch(
    queries: Tensor, items: ItemBlocks, blocks: Tensor, floor: Tensor, capacity: int
) -> tuple[Tensor, Tensor]:
    """:func:`rescored` in plain torch, a few queries at a time."""
    inside = torch.arange(items.tiling.block, device=queries.device)
    step = max(1, _NUMBERS // max(1, blocks.size(1) * inside.numel() * items.dim))
    keys = torch.empty(len(queries), capacity, dtype=torch.int64, device=queries.device)
    complete = torch.empty(len(queries), dtype=torch.bool, device=queries.device)
    for first in range(0, len(queries), step):
        rows = slice(first, first + step)
        ids = (blocks[rows, :, None] * items.tiling.block + inside).flatten(1)
        gathered = items.items[ids.clamp(max=items.num_items - 1)]
        scores = pair_scores(queries[rows, None], gathered, items.metric)
        kept = (ids < items.num_items) & (scores >= floor[rows, None])
        found = ranking_key(scores, ids).masked_fill(~kept, NOTHING)
        complete[rows] = kept.sum(dim=1) <= capacity
        if capacity < found.size(1):
            found = found.topk(capacity, dim=1).values
        keys[rows] = found
    return keys, complete


def exact_top(
    queries: Tensor,
    items: Tensor | ItemBlocks,
    n: int,
    *,
    metric: str = "ip",
    exclude: CSRGraph | None = None,
    first_query: int = 0,
    exclude_rows: Tensor | None = None,
    tiling: Tiling | None = None,
    memory: int | None = None,
) -> TopItems:
    """The ``n`` best items of every query, exact for scores in 32-bit floats.

    Args:
        queries: ``[q, d]``.
        items: ``[i, d]``, or made ready by :meth:`ItemBlocks.of` (``metric`` and ``tiling`` are
            then theirs).
        n: How many; columns beyond the number of items are filled with -1.
        metric: ``"ip"`` for inner products, ``"l2"`` for Euclidean distance.
        exclude: Items that must not come out, by row, each row sorted.
        first_query: The row of ``exclude`` that belongs to the first query.
        exclude_rows: The row of each query, where they do not follow each other.
        tiling: Layout of stage 1. (default: by device and width)
        memory: Bytes for the maxima of one batch of queries. (default: 256 MiB; on CUDA a
            quarter of what is free, at most 24 GiB)
    """
    if n < 1:
        raise InputError(f"Expected n to be at least one; found {n}.")
    blocks = items if isinstance(items, ItemBlocks) else ItemBlocks.of(items, metric, tiling)
    queries = checked_vectors(queries, "queries")
    if queries.size(1) != blocks.dim or queries.device != blocks.items.device:
        raise InputError(
            f"Expected queries of {blocks.dim} columns on {blocks.items.device}, as the items "
            f"are; found {queries.size(1)} columns on {queries.device}."
        )
    rows = _rows(len(queries), exclude, first_query, exclude_rows, blocks)
    width = blocks.num_chunks * blocks.tiling.chunk_blocks * 4
    tile = blocks.tiling.users
    batch = tile * max(1, (memory or _memory(queries.device)) // (tile * (width + 64 * _KEYS * n)))
    search = _Search(blocks, n, exclude)
    scores = queries.new_empty(len(queries), n)
    found = queries.new_empty(len(queries), n, dtype=torch.int64)
    for first in range(0, len(queries), batch):
        part = slice(first, first + batch)
        scores[part], found[part] = from_ranking_key(search.best(queries[part], rows[part]))
    return TopItems(scores, found, search.widened, search.scanned)


class _Search:
    """One batch of queries after another."""

    def __init__(self, blocks: ItemBlocks, n: int, exclude: CSRGraph | None) -> None:
        self.blocks, self.n, self.exclude = blocks, n, exclude
        self.widened = self.scanned = 0

    def best(self, queries: Tensor, rows: Tensor) -> Tensor:
        """Ranking keys ``[q, n]``, best first."""
        count = self._first_count(rows)
        if 2 * count >= self.blocks.num_blocks:
            return self._scan(queries, rows)
        kind = getattr(torch, self.blocks.tiling.dtype)
        rounded = RoundedVectors.of(queries, kind, by_row=self.blocks.metric == "ip")
        bound = ErrorBound.of(rounded, self.blocks)
        maxima, tops = block_maxima(rounded, self.blocks)
        keys, proved = self._look(queries, rows, bound, maxima, tops, count, _KEYS * self.n)
        if bool(proved.all()):
            return keys
        left = (~proved).nonzero()[:, 0]
        self.widened += left.numel()
        nothing = (queries[left] == 0).all(dim=1)
        if self.blocks.metric == "ip" and bool(nothing.any()):  # all scores are 0: ids decide
            zero = left[nothing]
            keys[zero] = self._scan(queries[zero], rows[zero], self._longest(rows[zero]))
            left = left[~nothing]
        if 2 * _WIDER * count < self.blocks.num_blocks and left.numel():
            arguments = (queries[left], rows[left], bound[left], maxima[left], tops[left])
            capacity = _WIDER * max(_KEYS * self.n, count)
            found, proved = self._look(*arguments, _WIDER * count, capacity)
            keys[left[proved]] = found[proved]
            left = left[~proved]
        if left.numel():
            self.scanned += left.numel()
            keys[left] = self._scan(queries[left], rows[left])
        return keys

    def _look(
        self,
        queries: Tensor,
        rows: Tensor,
        bound: ErrorBound,
        maxima: Tensor,
        tops: Tensor,
        count: int,
        capacity: int,
    ) -> tuple[Tensor, Tensor]:
        """The best of ``count`` blocks, and whether they are proved the best of all."""
        choice = BlockChoice.of(maxima, tops, count, self.blocks.num_blocks)
        place = (self._degree(rows) + self.n - 1).clamp(max=choice.maxima.size(1) - 1)
        floor = bound.floor(choice.maxima.gather(1, place[:, None])[:, 0])
        keys, complete = rescored(queries, self.blocks, choice.blocks, floor, capacity)
        keys = self._ranked(keys, rows)
        last, ceiling = keys[:, -1], bound.ceiling(choice.outside)
        worst = bound.in_stage_one(from_ranking_key(last)[0])
        return keys, complete & (last != NOTHING) & (worst > ceiling)

    def _scan(self, queries: Tensor, rows: Tensor, first: int | None = None) -> Tensor:
        """The best of all items, or of the first so many."""
        size, block = len(queries), self.blocks.tiling.block
        if size > _SCANNING:
            parts = zip(queries.split(_SCANNING), rows.split(_SCANNING), strict=True)
            return torch.cat([self._scan(*part, first) for part in parts])
        number = self.blocks.num_blocks if first is None else -(-first // block)
        number, step = min(number, self.blocks.num_blocks), max(1, _SCAN // block)
        best = torch.full((size, self.n), NOTHING, dtype=torch.int64, device=queries.device)
        for start in range(0, number, step):
            floor = from_ranking_key(best[:, -1])[0]
            listed = torch.arange(start, min(start + step, number), device=queries.device)
            listed = listed.expand(size, -1)
            keys, _ = rescored(queries, self.blocks, listed, floor, step * block)
            best = torch.cat([best, self._ranked(keys, rows)], dim=1).topk(self.n, dim=1).values
        return best

    def _ranked(self, keys: Tensor, rows: Tensor) -> Tensor:
        """The best ``n`` keys of items not excluded, best first."""
        if self.exclude is not None:
            seen = is_seen(self.exclude, rows, from_ranking_key(keys)[1])
            keys = keys.masked_fill(seen, NOTHING)
        if keys.size(1) < self.n:
            keys = F.pad(keys, (0, self.n - keys.size(1)), value=NOTHING)
        return keys.topk(self.n, dim=1).values

    def _degree(self, rows: Tensor) -> Tensor:
        if self.exclude is None:
            return torch.zeros_like(rows)
        return self.exclude.rowptr[rows + 1].long() - self.exclude.rowptr[rows].long()

    def _longest(self, rows: Tensor) -> int:
        """Items among which every query finds ``n`` that are not excluded."""
        return self.n + int(self._degree(rows).max())

    def _first_count(self, rows: Tensor) -> int:
        """Blocks of the first choice: some more where many queries exclude items."""
        usual = self._degree(rows).float().quantile(0.9) if self.exclude and len(rows) else 0
        return self.n + _EXTRA + min(int(usual), self.n)


def _rows(
    size: int,
    exclude: CSRGraph | None,
    first_query: int,
    exclude_rows: Tensor | None,
    blocks: ItemBlocks,
) -> Tensor:
    device = blocks.items.device
    if exclude_rows is None:
        rows = torch.arange(first_query, first_query + size, device=device)
    else:
        rows = exclude_rows.to(device)
    if exclude is not None:
        low, high = (int(rows.min()), int(rows.max())) if rows.numel() else (0, 0)
        if len(rows) != size or low < 0 or (size and high >= exclude.num_rows):
            raise InputError(
                f"Expected one row of exclude, from 0 to {exclude.num_rows - 1}, for each of "
                f"{size} queries; found {len(rows)} rows from {low} to {high}."
            )
        if exclude.num_cols != blocks.num_items or exclude.col.device != device:
            raise InputError(
                f"Expected exclude with {blocks.num_items} columns on {device}, as the items; "
                f"found {exclude.num_cols} on {exclude.col.device}."
            )
    return rows


def _memory(device: torch.device) -> int:
    if device.type != "cuda":
        return 2**28
    return min(3 * 2**33, torch.cuda.mem_get_info(device)[0] // 4)
