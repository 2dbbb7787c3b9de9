"""Stage 2 on CUDA: items are scored where they lie, and only those worth ranking are written."""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

from drgcn.recommend.retrieval.item_blocks import ItemBlocks
from drgcn.recommend.retrieval.ranking_key import NOTHING


@triton.jit(do_not_specialize=["num_items", "count", "capacity"])  # type: ignore[untyped-decorator, unused-ignore]
def _keys(  # type: ignore[no-untyped-def]
    queries, items, blocks, floor, keys, complete, num_items, dim, count, capacity,
    ROWS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr, DISTANCE: tl.constexpr,  # noqa: N803
):  # fmt: skip
    query = tl.program_id(0).to(tl.int64)
    dims = tl.arange(0, DIM)
    used = dims < dim
    vector = tl.load(queries + query * dim + dims, mask=used, other=0.0)
    least = tl.load(floor + query)
    kept = 0
    for first in range(0, count * BLOCK, ROWS):
        place = first + tl.arange(0, ROWS)
        listed = place < count * BLOCK
        block = tl.load(blocks + query * count + place // BLOCK, mask=listed, other=0)
        item = block.to(tl.int64) * BLOCK + place % BLOCK
        listed = listed & (item < num_items)
        rows = tl.load(
            items + item[:, None] * dim + dims[None, :],
            mask=listed[:, None] & used[None, :],
            other=0.0,
        )
        if DISTANCE:
            away = vector[None, :] - rows
            scores = -tl.sum(away * away, axis=1)
        else:
            scores = tl.sum(vector[None, :] * rows, axis=1)
        scores = scores + 0.0  # minus zero counts as zero
        keep = listed & (scores >= least)
        bits = scores.to(tl.int32, bitcast=True)
        rising = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)
        key = (rising << 32) | (0x7FFFFFFF - item)
        number = keep.to(tl.int32)
        slot = kept + tl.cumsum(number, axis=0) - number
        tl.store(keys + query * capacity + slot, key, mask=keep & (slot < capacity))
        kept += tl.sum(number, axis=0)
    tl.store(complete + query, (kept <= capacity).to(tl.int8))


def keys_by_kernel(
    queries: Tensor, items: ItemBlocks, blocks: Tensor, floor: Tensor, capacity: int
) -> tuple[Tensor, Tensor]:
    """Keys ``[q, capacity]`` of items that reach the floor, and whether all found a place."""
    size, device = len(queries), queries.device
    keys = torch.full((size, capacity), NOTHING, dtype=torch.int64, device=device)
    complete = torch.empty(size, dtype=torch.int8, device=device)
    dim = triton.next_power_of_2(items.dim)
    if size:
        _keys[(size,)](
            *(queries.contiguous(), items.items, blocks.contiguous(), floor.contiguous()),
            *(keys, complete, items.num_items, items.dim, blocks.size(1), capacity),
            ROWS=max(16, items.tiling.gathered // dim),
            DIM=dim,
            BLOCK=items.tiling.block,
            DISTANCE=items.metric == "l2",
            num_warps=items.tiling.gathering_warps,
        )
    return keys, complete.bool()
