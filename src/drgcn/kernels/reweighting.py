"""Triton kernels of the Dr block: the vector s of a mean, and the gradients of folding it."""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

# Columns of a tile. Every program walks over all columns to sum, and writes one tile of them: sums
# are cheap to repeat, and waiting for another program is not.
_WIDTH = 128
# Entries of folded weights that a thread block holds.
_TILE = 4096


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _gate_forward_kernel(  # type: ignore[no-untyped-def]
    mean, squeeze, squeeze_bias, excite, excite_bias, hidden, out, d, g,
    WIDTH: tl.constexpr, HIDDEN: tl.constexpr,  # noqa: N803
):  # fmt: skip
    tile = tl.program_id(0)
    lane = tl.program_id(1).to(tl.int64)
    row = tl.arange(0, HIDDEN)
    total = tl.load(squeeze_bias + lane * g + row, mask=row < g, other=0.0)
    for start in range(0, d, WIDTH):
        place = start + tl.arange(0, WIDTH)
        inside = (row < g)[:, None] & (place < d)[None, :]
        spot = lane * g * d + row[:, None] * d + place[None, :]
        weight = tl.load(squeeze + spot, mask=inside, other=0.0)
        value = tl.load(mean + lane * d + place, mask=place < d, other=0.0)
        total += tl.sum(weight * value[None, :], axis=1)
    h = tl.where(total > 0, total, tl.exp(tl.minimum(total, 0.0)) - 1.0)
    tl.store(hidden + lane * g + row, h, mask=row < tl.where(tile == 0, g, 0))
    place = tile * WIDTH + tl.arange(0, WIDTH)
    inside = (place < d)[:, None] & (row < g)[None, :]
    spot = lane * d * g + place[:, None] * g + row[None, :]
    weight = tl.load(excite + spot, mask=inside, other=0.0)
    logit = tl.sum(weight * h[None, :], axis=1)
    logit += tl.load(excite_bias + lane * d + place, mask=place < d, other=0.0)
    tl.store(out + lane * d + place, 1.0 / (1.0 + tl.exp(-logit)), mask=place < d)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _slope(grad, s, place, inside):  # type: ignore[no-untyped-def]
    gate = tl.load(s + place, mask=inside, other=0.0)
    return tl.load(grad + place, mask=inside, other=0.0) * gate * (1.0 - gate)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _gate_backward_kernel(  # type: ignore[no-untyped-def]
    grad, s, mean, hidden, squeeze, excite,
    grad_mean, grad_squeeze, grad_squeeze_bias, grad_excite, grad_excite_bias, d, g,
    WIDTH: tl.constexpr, HIDDEN: tl.constexpr,  # noqa: N803
):  # fmt: skip
    tile = tl.program_id(0)
    lane = tl.program_id(1).to(tl.int64)
    row = tl.arange(0, HIDDEN)
    h = tl.load(hidden + lane * g + row, mask=row < g, other=0.0)
    grad_h = tl.zeros([HIDDEN], dtype=h.dtype)
    for start in range(0, d, WIDTH):
        place = start + tl.arange(0, WIDTH)
        slope = _slope(grad, s, lane * d + place, place < d)
        inside = (place < d)[:, None] & (row < g)[None, :]
        spot = lane * d * g + place[:, None] * g + row[None, :]
        weight = tl.load(excite + spot, mask=inside, other=0.0)
        grad_h += tl.sum(weight * slope[:, None], axis=0)
    grad_total = grad_h * tl.where(h > 0, 1.0, h + 1.0)
    tl.store(grad_squeeze_bias + lane * g + row, grad_total, mask=row < tl.where(tile == 0, g, 0))
    place = tile * WIDTH + tl.arange(0, WIDTH)
    slope = _slope(grad, s, lane * d + place, place < d)
    tl.store(grad_excite_bias + lane * d + place, slope, mask=place < d)
    inside = (place < d)[:, None] & (row < g)[None, :]
    spot = lane * d * g + place[:, None] * g + row[None, :]
    tl.store(grad_excite + spot, slope[:, None] * h[None, :], mask=inside)
    value = tl.load(mean + lane * d + place, mask=place < d, other=0.0)
    inside = (row < g)[:, None] & (place < d)[None, :]
    spot = lane * g * d + row[:, None] * d + place[None, :]
    tl.store(grad_squeeze + spot, grad_total[:, None] * value[None, :], mask=inside)
    weight = tl.load(squeeze + spot, mask=inside, other=0.0)
    of_mean = tl.sum(weight * grad_total[:, None], axis=0)
    tl.store(grad_mean + lane * d + place, of_mean, mask=place < d)


def squeeze_excite(
    mean: Tensor, squeeze: Tensor, squeeze_bias: Tensor, excite: Tensor, excite_bias: Tensor
) -> tuple[Tensor, Tensor]:
    """``s`` and the hidden layer of lanes of blocks with ELU and sigmoid: mean ``[lanes, d]``,
    weights ``[lanes, g, d]`` and ``[lanes, d, g]``."""
    lanes, g, d = squeeze.shape
    hidden, out = mean.new_empty(lanes, g), mean.new_empty(lanes, d)
    _gate_forward_kernel[triton.cdiv(d, _WIDTH), lanes](
        mean,
        squeeze,
        squeeze_bias,
        excite,
        excite_bias,
        hidden,
        out,
        d,
        g,
        WIDTH=_WIDTH,
        HIDDEN=max(triton.next_power_of_2(g), 16),
    )
    return out, hidden


def squeeze_excite_backward(
    grad: Tensor, s: Tensor, mean: Tensor, hidden: Tensor, squeeze: Tensor, excite: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of all five arguments of :func:`squeeze_excite`."""
    lanes, g, d = squeeze.shape
    found = (
        torch.empty_like(mean),
        torch.empty_like(squeeze),
        mean.new_empty(lanes, g),
        torch.empty_like(excite),
        torch.empty_like(mean),
    )
    _gate_backward_kernel[triton.cdiv(d, _WIDTH), lanes](
        grad,
        s,
        mean,
        hidden,
        squeeze,
        excite,
        *found,
        d,
        g,
        WIDTH=_WIDTH,
        HIDDEN=max(triton.next_power_of_2(g), 16),
    )
    return found


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _fold_backward_kernel(  # type: ignore[no-untyped-def]
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
    """Gradients of weights ``[lanes, d, k]`` and of the ``s`` ``[lanes, d]`` of their rows."""
    lanes, d, k = weight.shape
    width = triton.next_power_of_2(k)
    rows = max(_TILE // width, 1)
    of_weight, of_s = torch.empty_like(weight), torch.empty_like(s)
    grid = (triton.cdiv(d, rows), lanes)
    _fold_backward_kernel[grid](grad, weight, s, of_weight, of_s, d, k, ROWS=rows, WIDTH=width)
    return of_weight, of_s
