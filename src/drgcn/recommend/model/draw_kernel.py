"""The draws of :mod:`~drgcn.recommend.model.systematic_draw` on CUDA in one kernel."""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

from drgcn.sampling.graph import CSRGraph
from drgcn.streams import MIX, SPREAD

_BLOCK = 256


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _draw(  # type: ignore[no-untyped-def]
    rowptr, col, rows, key, out, total, first, num_rows, num_cols,
    COUNT: tl.constexpr,  # noqa: N803
    SPREAD: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < total
    number = place // COUNT  # of the row among the rows
    row = tl.load(rows + number, mask=inside, other=num_rows)
    somebody = inside & (row < num_rows)
    begin = tl.load(rowptr + row, mask=somebody, other=0).to(tl.int64)
    degree = tl.load(rowptr + row + 1, mask=somebody, other=0).to(tl.int64) - begin
    z = (tl.load(key) + number + first).to(tl.uint64, bitcast=True) * SPREAD
    z = (z ^ (z >> 30)) * FIRST
    z = (z ^ (z >> 27)) * SECOND
    z = z ^ (z >> 31)
    chance = (z >> 32).to(tl.int64)
    step = (place % COUNT) << 32
    entry = begin + (((step + chance) * degree) >> 32) // COUNT
    real = degree > 0
    found = tl.load(col + entry, mask=real, other=0).to(tl.int64)
    tl.store(out + place, tl.where(real, found, num_cols), mask=inside)


def drawn_on_cuda(graph: CSRGraph, rows: Tensor, count: int, key: Tensor, first: int) -> Tensor:
    """What :func:`~drgcn.recommend.model.systematic_draw.draw_systematic` returns."""
    out = torch.empty(*rows.shape, count, dtype=torch.int64, device=rows.device)
    if out.numel():
        _draw[(triton.cdiv(out.numel(), _BLOCK),)](
            *(graph.rowptr, graph.col, rows.contiguous(), key, out, out.numel(), first),
            *(graph.num_rows, graph.num_cols),
            COUNT=count,
            SPREAD=SPREAD,
            FIRST=MIX[0],
            SECOND=MIX[1],
            BLOCK=_BLOCK,
        )
    return out
