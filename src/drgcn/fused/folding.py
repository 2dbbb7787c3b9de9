"""Rows of weights times the entries of a vector: S W."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from drgcn.fused.lanes import with_lanes
from drgcn.triton_available import triton_available

if triton_available():
    from drgcn.fused.fold_kernel import scaled_rows_backward
else:
    scaled_rows_backward = None  # type: ignore[assignment]

# One thread block holds whole rows; beyond this width plain torch is as fast.
_WIDEST = 1024


def scaled_rows(weight: Tensor, s: Tensor) -> Tensor:
    """``s[:, None] * weight``. On CUDA both gradients come out of one kernel."""
    kinds = {weight.dtype, s.dtype}
    fits = weight.dim() == 2 and weight.size(1) <= _WIDEST and kinds == {torch.float32}
    if scaled_rows_backward is None or not weight.is_cuda or not fits:
        return weight * s[:, None]
    return _ScaledRows.apply(weight, s)


class _ScaledRows(torch.autograd.Function):
    @staticmethod
    def forward(weight: Tensor, s: Tensor) -> Tensor:
        return weight * s[..., None]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        weight, s = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants the gradient of a gradient
            return grad * s[..., None], (grad * weight).sum(-1)
        return _Gradient.apply(grad, weight, s)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *values: Tensor) -> tuple[Tensor, int]:
        return _ScaledRows.apply(*with_lanes(info, in_dims, values)), 0


class _Gradient(torch.autograd.Function):
    @staticmethod
    def forward(*values: Tensor) -> tuple[Tensor, Tensor]:
        single = values[1].dim() == 2
        grad, weight, s = (v[None] if single else v for v in values)
        found = scaled_rows_backward(grad.contiguous(), weight.contiguous(), s.contiguous())
        return (found[0][0], found[1][0]) if single else found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *values: Tensor) -> Any:
        return _Gradient.apply(*with_lanes(info, in_dims, values)), (0, 0)
