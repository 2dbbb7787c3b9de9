"""Triton kernels of exact search: maxima of blocks, and scores of chosen blocks.

A program holds a tile of queries and lets a chunk of items pass by. Programs that run together
share the chunk, which therefore comes from the L2 cache for all but the first. Loads are not
masked: queries and items are padded.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

from drgcn.recommend.retrieval.blocks import NARROWEST, ItemBlocks, RoundedVectors
from drgcn.recommend.retrieval.ranking import NOTHING


@triton.jit(do_not_specialize=["user_tiles", "chunks"])  # type: ignore[untyped-decorator, unused-ignore]
def _maxima_kernel(  # type: ignore[no-untyped-def]
    queries, items, bias, maxima, tops, user_tiles, ratio, blocks, chunks,
    USERS: tl.constexpr, ITEMS: tl.constexpr, DIM: tl.constexpr, FOLD: tl.constexpr,  # noqa: N803
    GROUPS: tl.constexpr, COLUMNS: tl.constexpr, BIASED: tl.constexpr,  # noqa: N803
):  # fmt: skip
    chunk = (tl.program_id(0) // user_tiles).to(tl.int64)  # programs side by side share it
    users = (tl.program_id(0) % user_tiles).to(tl.int64) * USERS + tl.arange(0, USERS)
    dims = tl.arange(0, DIM)
    columns = tl.arange(0, ITEMS)
    query = tl.load(queries + users[:, None] * DIM + dims[None, :])
    first = chunk * (GROUPS * FOLD * ITEMS)
    place = items + first * DIM + columns[None, :] * DIM + dims[:, None]
    bias += first + columns
    kept: tl.constexpr = ITEMS // COLUMNS
    out = maxima + users[:, None] * blocks + chunk * (GROUPS * kept) + tl.arange(0, kept)[None, :]
    top = tl.full([USERS], float("-inf"), tl.float32)
    for _ in range(GROUPS):
        best = tl.full([USERS, ITEMS], float("-inf"), tl.float32)
        for _ in range(FOLD):
            scores = tl.dot(query, tl.load(place))
            if BIASED:
                scores += (tl.load(bias) * ratio)[None, :]
            best = tl.maximum(best, scores) if FOLD > 1 else scores
            place += ITEMS * DIM
            bias += ITEMS
        if COLUMNS > 1:
            best = tl.max(tl.reshape(best, [USERS, kept, COLUMNS]), axis=2)
        tl.store(out, best)
        top = tl.maximum(top, tl.max(best, axis=1))
        out += kept
    tl.store(tops + users * chunks + chunk, top)


def maxima_by_kernel(queries: RoundedVectors, blocks: ItemBlocks) -> tuple[Tensor, Tensor]:
    """Maxima by block ``[q, chunks * chunk_blocks]`` and by chunk ``[q, chunks]``."""
    tiling, size = blocks.tiling, len(queries.values)
    dim = max(NARROWEST, triton.next_power_of_2(blocks.dim))
    tiles = triton.cdiv(size, tiling.users)
    left = _padded(queries.values, tiles * tiling.users, dim)
    right = _padded(blocks.rounded, len(blocks.rounded), dim)
    chunks, width = blocks.num_chunks, blocks.num_chunks * tiling.chunk_blocks
    maxima = torch.empty(len(left), width, device=left.device)
    tops = torch.empty(len(left), chunks, device=left.device)
    if size:
        _maxima_kernel[(tiles * chunks,)](
            left,
            right,
            maxima if blocks.bias is None else blocks.bias,
            maxima,
            tops,
            tiles,
            float(queries.scale[0, 0]) / blocks.scale,
            width,
            chunks,
            USERS=tiling.users,
            ITEMS=tiling.items,
            DIM=dim,
            FOLD=tiling.fold,
            GROUPS=tiling.chunk // tiling.fold,
            COLUMNS=tiling.columns,
            BIASED=blocks.bias is not None,
            num_warps=tiling.warps,
            num_stages=tiling.stages,
        )
    return maxima[:size], tops[:size]


def _padded(x: Tensor, rows: int, columns: int) -> Tensor:
    if x.shape == (rows, columns):
        return x
    return torch.nn.functional.pad(x, (0, columns - x.size(1), 0, rows - x.size(0)))


@triton.jit(do_not_specialize=["num_items", "count", "capacity"])  # type: ignore[untyped-decorator, unused-ignore]
def _keys_kernel(  # type: ignore[no-untyped-def]
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
        _keys_kernel[(size,)](
            queries.contiguous(),
            items.items,
            blocks.contiguous(),
            floor.contiguous(),
            keys,
            complete,
            items.num_items,
            items.dim,
            blocks.size(1),
            capacity,
            ROWS=max(16, items.tiling.gathered // dim),
            DIM=dim,
            BLOCK=items.tiling.block,
            DISTANCE=items.metric == "l2",
            num_warps=items.tiling.gathering_warps,
        )
    return keys, complete.bool()
