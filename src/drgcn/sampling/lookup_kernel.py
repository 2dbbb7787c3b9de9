"""Bisection in the rows of a sparse matrix on CUDA: one thread per crossing, one pass."""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

from drgcn.sampling.csr_graph import CSRGraph

_BLOCK = 256


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _bisect(  # type: ignore[no-untyped-def]
    rowptr, col, value, rows, cols, out, row_count, col_count,
    HAS_VALUE: tl.constexpr, LOOKS: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    crossing = tl.program_id(0).to(tl.int64)  # lane and row
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < col_count
    lane = crossing // row_count
    row = tl.load(rows + crossing)
    wanted = tl.load(cols + lane * col_count + place, mask=inside, other=0).to(tl.int64)
    end = tl.load(rowptr + row + 1).to(tl.int64)
    low = tl.zeros([BLOCK], dtype=tl.int64) + tl.load(rowptr + row).to(tl.int64)
    high = tl.zeros([BLOCK], dtype=tl.int64) + end
    for _ in range(LOOKS):
        middle = (low + high) // 2
        open_ = middle < high
        here = tl.load(col + middle, mask=inside & open_, other=0).to(tl.int64)
        before = open_ & (here < wanted)
        low = tl.where(before, middle + 1, low)
        high = tl.where(before, high, middle)
    listed = inside & (low < end)
    found = listed & (tl.load(col + low, mask=listed, other=-1).to(tl.int64) == wanted)
    if HAS_VALUE:  # noqa: SIM108 - a branch of the compiler, not of the kernel
        entry = tl.load(value + low, mask=found, other=0.0)
    else:
        entry = tl.where(found, 1.0, 0.0)
    tl.store(out + crossing * col_count + place, entry, mask=inside)


def looked_up(graph: CSRGraph, rows: Tensor, cols: Tensor) -> Tensor:
    """Entries ``[..., rows, cols]`` for rows ``[..., rows]`` and columns ``[..., cols]``."""
    dtype = torch.get_default_dtype() if graph.value is None else graph.value.dtype
    out = torch.empty(*rows.shape, cols.size(-1), dtype=dtype, device=rows.device)
    if out.numel():
        grid = (rows.numel(), triton.cdiv(cols.size(-1), _BLOCK))
        _bisect[grid](
            *(graph.rowptr, graph.col, graph.col if graph.value is None else graph.value),
            *(rows.contiguous(), cols.contiguous(), out, rows.size(-1), cols.size(-1)),
            HAS_VALUE=graph.value is not None,
            LOOKS=graph.longest_row.bit_length(),
            BLOCK=_BLOCK,
        )
    return out
