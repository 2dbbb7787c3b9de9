"""What dropout multiplies by: zero, or the reciprocal of the share that is kept."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from drgcn.kernels import triton_available
from drgcn.streams import random_16bit

LEVELS = 1 << 16

if triton_available():
    from drgcn.kernels.dropout import hashed_factors as _hashed_factors
else:
    _hashed_factors = None  # type: ignore[assignment]


def dropout_factors(key: Tensor, count: int, p: float, dtype: torch.dtype) -> Tensor:
    """``count`` factors drawn from a key; the same on every device.

    Under :func:`torch.vmap` over keys, every lane draws its own.

    Args:
        key: 64-bit integer.
        count: How many.
        p: Share that becomes zero, rounded to ``1 / 65536``; the others are scaled by the rounded
            rate, so that expectations are exact.
        dtype: Data type of the factors.
    """
    return _Factors.apply(key, count, round(p * LEVELS), dtype)


class _Factors(torch.autograd.Function):
    @staticmethod
    def forward(key: Tensor, count: int, dropped: int, dtype: torch.dtype) -> Tensor:
        scale = LEVELS / max(LEVELS - dropped, 1)
        if key.is_cuda and _hashed_factors is not None:
            return _hashed_factors(key, count, dropped - LEVELS // 2, scale, dtype)
        keep = random_16bit(key, count) >= dropped - LEVELS // 2
        return keep.to(dtype) * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], key: Tensor, *rest: Any) -> Any:
        return _Factors.apply(key.movedim(in_dims[0] or 0, 0), *rest), 0
