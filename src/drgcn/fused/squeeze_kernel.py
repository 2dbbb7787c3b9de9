"""The Dr block's way from the mean to s on CUDA: one kernel there, one back."""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

# Few weights, and all of them wait for each other: one thread block takes as many at once as its
# registers hold.
_TILE = 2**15


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _there(  # type: ignore[no-untyped-def]
    mean, squeeze, squeeze_bias, excite, excite_bias, hidden, out, d, g,
    WIDTH: tl.constexpr, HIDDEN: tl.constexpr,  # noqa: N803
):  # fmt: skip
    lane = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, HIDDEN)
    total = tl.load(squeeze_bias + lane * g + row, mask=row < g, other=0.0)
    for start in range(0, d, WIDTH):
        place = start + tl.arange(0, WIDTH)
        inside = (row < g)[:, None] & (place < d)[None, :]
        weight = tl.load(
            squeeze + lane * g * d + row[:, None] * d + place[None, :], mask=inside, other=0.0
        )
        value = tl.load(mean + lane * d + place, mask=place < d, other=0.0)
        total += tl.sum(weight * value[None, :], axis=1)
    h = tl.where(total > 0, total, tl.exp(tl.minimum(total, 0.0)) - 1.0)
    tl.store(hidden + lane * g + row, h, mask=row < g)
    for start in range(0, d, WIDTH):
        place = start + tl.arange(0, WIDTH)
        inside = (place < d)[:, None] & (row < g)[None, :]
        weight = tl.load(
            excite + lane * d * g + place[:, None] * g + row[None, :], mask=inside, other=0.0
        )
        h_row = tl.where(row < g, h, 0.0)
        logit = tl.sum(weight * h_row[None, :], axis=1)
        logit += tl.load(excite_bias + lane * d + place, mask=place < d, other=0.0)
        tl.store(out + lane * d + place, 1.0 / (1.0 + tl.exp(-logit)), mask=place < d)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _back(  # type: ignore[no-untyped-def]
    grad, s, mean, hidden, squeeze, excite,
    grad_mean, grad_squeeze, grad_squeeze_bias, grad_excite, grad_excite_bias, d, g,
    WIDTH: tl.constexpr, HIDDEN: tl.constexpr,  # noqa: N803
):  # fmt: skip
    lane = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, HIDDEN)
    h = tl.load(hidden + lane * g + row, mask=row < g, other=0.0)
    grad_h = tl.zeros([HIDDEN], dtype=h.dtype)
    for start in range(0, d, WIDTH):
        place = start + tl.arange(0, WIDTH)
        gate = tl.load(s + lane * d + place, mask=place < d, other=0.0)
        slope = tl.load(grad + lane * d + place, mask=place < d, other=0.0) * gate * (1.0 - gate)
        tl.store(grad_excite_bias + lane * d + place, slope, mask=place < d)
        inside = (place < d)[:, None] & (row < g)[None, :]
        spot = lane * d * g + place[:, None] * g + row[None, :]
        weight = tl.load(excite + spot, mask=inside, other=0.0)
        tl.store(grad_excite + spot, slope[:, None] * h[None, :], mask=inside)
        grad_h += tl.sum(weight * slope[:, None], axis=0)
    grad_total = grad_h * tl.where(h > 0, 1.0, h + 1.0)
    tl.store(grad_squeeze_bias + lane * g + row, grad_total, mask=row < g)
    grad_total = tl.where(row < g, grad_total, 0.0)
    for start in range(0, d, WIDTH):
        place = start + tl.arange(0, WIDTH)
        value = tl.load(mean + lane * d + place, mask=place < d, other=0.0)
        inside = (row < g)[:, None] & (place < d)[None, :]
        spot = lane * g * d + row[:, None] * d + place[None, :]
        weight = tl.load(squeeze + spot, mask=inside, other=0.0)
        tl.store(grad_squeeze + spot, grad_total[:, None] * value[None, :], mask=inside)
        tl.store(
            grad_mean + lane * d + place,
            tl.sum(weight * grad_total[:, None], axis=0),
            mask=place < d,
        )


def squeeze_excite(
    mean: Tensor, squeeze: Tensor, squeeze_bias: Tensor, excite: Tensor, excite_bias: Tensor
) -> tuple[Tensor, Tensor]:
    """``s`` and the hidden layer of lanes of blocks with ELU and sigmoid: mean ``[lanes, d]``,
    weights ``[lanes, g, d]`` and ``[lanes, d, g]``."""
    lanes, g, d = squeeze.shape
    hidden, out = mean.new_empty(lanes, g), mean.new_empty(lanes, d)
    _there[(lanes,)](
        *(mean, squeeze, squeeze_bias, excite, excite_bias, hidden, out, d, g),
        **_shape(d, g),
    )
    return out, hidden


def squeeze_excite_backward(
    grad: Tensor, s: Tensor, mean: Tensor, hidden: Tensor, squeeze: Tensor, excite: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of all five arguments of :func:`squeeze_excite`."""
    lanes, g, d = squeeze.shape
    found = (
        torch.empty_like(mean),
        torch.empty_like(squeeze),
        mean.new_empty(lanes, g),
        torch.empty_like(excite),
        torch.empty_like(mean),
    )
    _back[(lanes,)](
        *(grad, s, mean, hidden, squeeze, excite, *found, d, g),
        **_shape(d, g),
    )
    return found


def _shape(d: int, g: int) -> dict[str, int]:
    hidden = max(triton.next_power_of_2(g), 16)
    width = max(min(triton.next_power_of_2(d), _TILE // hidden), 16)
    return {"WIDTH": width, "HIDDEN": hidden, "num_warps": min(max(hidden * width // 1024, 1), 16)}
