"""The vector s of a Dr block with ELU and sigmoid, from the mean of its input."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.fused.lanes import with_lanes
from drgcn.triton_available import triton_available

if triton_available():
    from drgcn.fused.squeeze_kernel import squeeze_excite, squeeze_excite_backward
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
        return _Gradient.apply(grad, out, mean, hidden, squeeze, excite)

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


class _Gradient(torch.autograd.Function):
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
        return _Gradient.apply(*with_lanes(info, in_dims, arguments)), (0,) * 5


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector[..., None])[..., 0]
