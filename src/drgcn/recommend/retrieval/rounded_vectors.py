"""Vectors rounded for tensor cores, and how far each was moved by it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_ROWS = 2**18  # rounded at a time


@dataclass(frozen=True, eq=False)
class RoundedVectors:
    """Vectors times a power of two, rounded, with upper bounds on what that did.

    The power of two puts the largest entry between 1/2 and 1, where 16-bit floats are at their
    best; it moves nothing but the exponent. The norms are those of the scaled vectors, summed in
    64-bit floats, and a little too large rather than too small.

    Attributes:
        values: ``[n, d]``.
        scale: The power of two ``[n, 1]``, or ``[1, 1]`` where all share one.
        square: Squared norms before rounding ``[n]``.
        norm: Norms before rounding ``[n]``.
        rounded_norm: Norms after rounding ``[n]``.
        moved: Norms of the difference ``[n]``.
    """

    values: Tensor
    scale: Tensor
    square: Tensor
    norm: Tensor
    rounded_norm: Tensor
    moved: Tensor

    @classmethod
    def of(cls, x: Tensor, dtype: torch.dtype, *, by_row: bool) -> RoundedVectors:
        """Rounds the rows of ``x``, scaled one by one or all alike.

        With 32-bit floats nothing is scaled or rounded.
        """
        largest = x.abs().amax(dim=1, keepdim=True) if x.numel() else x.new_zeros(len(x), 1)
        if not by_row:
            largest = largest.amax(dim=0, keepdim=True) if len(x) else x.new_zeros(1, 1)
        exponent = torch.frexp(largest).exponent.clamp(-100, 100)
        scale = torch.ldexp(torch.ones_like(largest), -exponent)
        if dtype == torch.float32:
            scale = torch.ones_like(scale)
        values = torch.empty_like(x, dtype=dtype)
        square, after, moved = torch.empty(3, len(x), dtype=torch.float64, device=x.device)
        for first in range(0, len(x), _ROWS):
            rows = slice(first, first + _ROWS)
            scaled = x[rows] * (scale[rows] if by_row else scale)
            values[rows] = scaled.to(dtype)
            back = values[rows].float()
            square[rows], after[rows] = _square(scaled), _square(back)
            moved[rows] = _square(scaled - back)
        return cls(
            values, scale.double(), square, *(_root(part) for part in (square, after, moved))
        )


def _square(x: Tensor) -> Tensor:
    return x.double().square().sum(dim=1)


def _root(square: Tensor) -> Tensor:
    """A root rounded up by more than sum and root can have lost."""
    return square.sqrt() * (1 + 2.0**-30) + 2.0**-120
