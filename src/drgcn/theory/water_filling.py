"""Theorem 1 for diagonal C, where the least gamma is known exactly."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.theory.conditions import at_least
from drgcn.theory.diagonal_off_diagonal import DOS
from drgcn.theory.theorem_one import Reweighting


def diagonal_reweighting(variance: Tensor, dos: DOS) -> Reweighting:
    r"""The s of least :math:`\|T(\mathbf{SCS})\|_F` for diagonal :math:`\mathbf{C}`, exactly.

    In :math:`\tau_i = s_i^2 c_{ii}` the objective of Appendix G is the convex

    .. math::
        (u^2 + (2d - 4) v^2) \sum_i \tau_i^2 + 2 v^2 \Big(\sum_i \tau_i\Big)^2
        \quad \text{on} \quad \sum_i \tau_i / c_{ii} = d, \; \tau \geq 0,

    so that :math:`\tau_i` is :math:`\lambda / c_{ii}` less a common level, or zero below it:
    mass goes to the dimensions of small variance. One variance of zero takes all of it.

    Args:
        variance (Tensor): Diagonal of :math:`\mathbf{C}`, ``[d]``, not negative.
        dos (DOS): The operator, with :math:`u \neq 0`, or :math:`v \neq 0` and d > 2.
    """
    variance = torch.as_tensor(variance).detach().to(torch.float64)
    d = at_least(variance.numel(), 2, "Theorem 1")
    if not bool(torch.isfinite(variance).all()) or bool((variance < 0).any()):
        raise InputError("Variances must be finite and not negative.")
    if not bool(variance.any()):
        raise InputError("gamma divides by the norm of T(C); found C = 0.")
    own = dos.u**2 + (2 * d - 4) * dos.v**2
    shared = 2 * dos.v**2
    if own == 0:
        raise InputError(f"Theorem 1 needs u != 0 or v != 0, with d > 2; found {dos}, d = {d}.")
    if bool((variance == 0).any()):
        empty = (variance == 0).double()
        return Reweighting((d * empty / empty.sum()).sqrt(), 0.0)
    tau = _levels(variance, own, shared)
    value = own * tau.square().sum() + shared * tau.sum().square()
    start = own * variance.square().sum() + shared * variance.sum().square()
    return Reweighting((tau / variance).sqrt(), math.sqrt(float(value / start)))


def _levels(variance: Tensor, own: float, shared: float) -> Tensor:
    """Tau by trying how many of the smallest variances are above the water."""
    d = variance.numel()
    inverse = (1 / variance).sort(descending=True).values
    for active in range(d, 0, -1):
        head = inverse[:active]
        # Stationary: own tau_i + shared sum(tau) = multiplier / c_ii on the active ones.
        level = shared * head.sum() / (own + shared * active)
        multiplier = d * own / (head.square().sum() - level * head.sum())
        if head[-1] > level or active == 1:
            return (multiplier * (1 / variance - level) / own).clamp(min=0.0) * (
                1 / variance >= head[-1]
            )
    raise AssertionError("one active dimension is always possible")
