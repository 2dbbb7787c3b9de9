"""Arithmetic of the Dr block as autograd functions with rules for ``vmap``: s, and S W."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.kernels import triton_available

if triton_available():
    from drgcn.kernels.reweighting import squeeze_excite, squeeze_excite_backward
else:
    squeeze_excite = squeeze_excite_backward = None  # type: ignore[assignment]

# One thread block walks over all weights of a block; beyond this, matrix products are faster.
_LARGEST = 2**15


def fused_gate_vector(
    mean: Tensor, squeeze: Tensor, squeeze_bias: Tensor, excite: Tensor, excite_bias: Tensor
) -> Tensor | None:
    """``sigmoid(excite @ elu(squeeze @ mean + b) + c)`` in one CUDA kernel, where that pays.

    Small blocks cost nothing but the start of their kernels: a dozen of them, there and back,
    become two. ``None`` where the plain way is to be taken.
    """
    kinds = {t.dtype for t in (mean, squeeze, squeeze_bias, excite, excite_bias)}
    fits = mean.dim() == 1 and squeeze.numel() <= _LARGEST and kinds == {torch.float32}
    if squeeze_excite is None or not mean.is_cuda or not fits:
        return None
    return _GateVector.apply(mean, squeeze, squeeze_bias, excite, excite_bias)[0]


class _GateVector(torch.autograd.Function):
    @staticmethod
    def forward(*arguments: Tensor) -> tuple[Tensor, Tensor]:
        single = arguments[0].dim() == 1
        lanes = [t[None] if single else t for t in arguments]
        out, hidden = squeeze_excite(*(t.contiguous() for t in lanes))
        return (out[0], hidden[0]) if single else (out, hidden)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        out, hidden = output
        ctx.mark_non_differentiable(hidden)
        ctx.save_for_backward(out, hidden, *inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        out, hidden, *inputs = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants the gradient of a gradient
            return gate_gradients(grad, *inputs)
        mean, squeeze, _, excite, _ = inputs
        return _GateVectorGradient.apply(grad, out, mean, hidden, squeeze, excite)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Tensor) -> Any:
        return _GateVector.apply(*with_lanes(info, in_dims, arguments)), (0, 0)


def gate_gradients(
    grad: Tensor,
    mean: Tensor,
    squeeze: Tensor,
    squeeze_bias: Tensor,
    excite: Tensor,
    excite_bias: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of all five arguments of a gate, in plain torch, for any leading axes."""
    hidden = F.elu(_times(squeeze, mean) + squeeze_bias)
    s = torch.sigmoid(_times(excite, hidden) + excite_bias)
    slope = grad * s * (1 - s)
    of_hidden = _times(excite.mT, slope) * torch.where(hidden > 0, 1.0, hidden + 1)
    return (
        _times(squeeze.mT, of_hidden),
        of_hidden[..., None] * mean[..., None, :],
        of_hidden,
        slope[..., None] * hidden[..., None, :],
        slope,
    )


class _GateVectorGradient(torch.autograd.Function):
    @staticmethod
    def forward(*arguments: Tensor) -> tuple[Tensor, ...]:
        single = arguments[0].dim() == 1
        lanes = [t[None] if single else t for t in arguments]
        found = squeeze_excite_backward(*(t.contiguous() for t in lanes))
        return tuple(t[0] for t in found) if single else found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Tensor) -> Any:
        return _GateVectorGradient.apply(*with_lanes(info, in_dims, arguments)), (0,) * 5


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector[..., None])[..., 0]


if triton_available():
    from drgcn.kernels.reweighting import scaled_rows_backward
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
        return _ScaledRowsGradient.apply(grad, weight, s)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *values: Tensor) -> tuple[Tensor, int]:
        return _ScaledRows.apply(*with_lanes(info, in_dims, values)), 0


class _ScaledRowsGradient(torch.autograd.Function):
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
        return _ScaledRowsGradient.apply(*with_lanes(info, in_dims, values)), (0, 0)


def with_lanes(
    info: Any, in_dims: tuple[int | None, ...], values: tuple[Tensor, ...]
) -> list[Tensor]:
    """Every value with its lanes first; one that all lanes share is repeated without a copy."""
    return [
        v.expand(info.batch_size, *v.shape) if dim is None else v.movedim(dim, 0)
        for v, dim in zip(values, in_dims, strict=True)
    ]
