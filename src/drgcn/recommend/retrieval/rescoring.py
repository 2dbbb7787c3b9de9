"""Stage 2: the scores of all items in the chosen blocks, in 32-bit floats."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.kernels import triton_available
from drgcn.recommend.retrieval.item_blocks import ItemBlocks
from drgcn.recommend.retrieval.pair_scores import pair_scores
from drgcn.recommend.retrieval.ranking_key import NOTHING, ranking_key
from drgcn.recommend.retrieval.tiling import WIDEST

if triton_available():
    from drgcn.recommend.retrieval.rescoring_kernel import keys_by_kernel as _by_kernel
else:
    _by_kernel = None  # type: ignore[assignment]

_NUMBERS = 2**24  # gathered at a time where there is no kernel


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
    if _by_kernel is not None and queries.is_cuda and items.dim <= WIDEST:
        return _by_kernel(queries, items, blocks, floor, capacity)
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
