"""The gradients of weights whose rows were scaled, on CUDA: one kernel for both."""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

_TILE = 4096


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _back(  # type: ignore[no-untyped-def]
    grad, weight, s, grad_weight, grad_s, d, k, ROWS: tl.constexpr, WIDTH: tl.constexpr,  # noqa: N803
):  # fmt: skip
    lane = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    inside = (row < d)[:, None] & (column < k)[None, :]
    spot = lane * d * k + row[:, None] * k + column[None, :]
    slope = tl.load(grad + spot, mask=inside, other=0.0)
    scale = tl.load(s + lane * d + row, mask=row < d, other=0.0)
    tl.store(grad_weight + spot, slope * scale[:, None], mask=inside)
    value = tl.load(weight + spot, mask=inside, other=0.0)
    tl.store(grad_s + lane * d + row, tl.sum(slope * value, axis=1), mask=row < d)


def scaled_rows_backward(grad: Tensor, weight: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of weights ``[lanes, d, k]`` and of the ``s`` ``[lanes, d]`` of their rows."""
    lanes, d, k = weight.shape
    width = triton.next_power_of_2(k)
    rows = max(_TILE // width, 1)
    of_weight, of_s = torch.empty_like(weight), torch.empty_like(s)
    grid = (triton.cdiv(d, rows), lanes)
    _back[grid](grad, weight, s, of_weight, of_s, d, k, ROWS=rows, WIDTH=width)
    return of_weight, of_s
