"""Activations as the theory sees them: a function, its slope, and whether it is homogeneous."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import InputError


@dataclass(frozen=True)
class Activation:
    r"""The :math:`\phi` of Eq. 7, applied to each entry.

    Quadratures split their panels at zero, so that :math:`\phi` may have a kink there; elsewhere
    it should be smooth.

    Args:
        name (str): How reports call it.
        function (Callable): :math:`\phi` on float64 tensors, differentiable by autograd.
        negative_slope (float, optional): :math:`a` if :math:`\phi(x) = x` for :math:`x > 0` and
            :math:`a x` otherwise: closed forms exist then, and are used.
    """

    name: str
    function: Callable[[Tensor], Tensor]
    negative_slope: float | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """:math:`\\phi(x)` for every entry."""
        return self.function(x)

    def slope(self, x: Tensor) -> Tensor:
        """:math:`\\phi'(x)` for every entry."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.function(x).sum(), x)
        return slope


def leaky_relu(negative_slope: float) -> Activation:
    r""":math:`x` for :math:`x > 0`, :math:`a x` otherwise; ReLU for 0, the identity for 1."""
    return Activation(
        f"leaky ReLU ({negative_slope:g})",
        lambda x: torch.where(x > 0, x, negative_slope * x),
        negative_slope,
    )


def relu_power(exponent: float) -> Activation:
    r""":math:`\max(x, 0)^p`, for :math:`p > 1`: where Theorem 3 needs its assumptions."""
    if not exponent > 1:
        raise InputError(f"relu_power needs an exponent above 1; found {exponent}.")
    return Activation(f"ReLU^{exponent:g}", lambda x: torch.relu(x) ** exponent)


RELU = Activation("ReLU", torch.relu, 0.0)
IDENTITY = Activation("identity", lambda x: x, 1.0)
TANH = Activation("tanh", torch.tanh)
ELU = Activation("ELU", lambda x: torch.where(x > 0, x, torch.expm1(x.clamp(max=0.0))))
