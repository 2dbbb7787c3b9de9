"""Theorem 1, repaired: some S makes the image of C under a DOS operator smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from drgcn.errors import InputError
from drgcn.theory.conditions import at_least, symmetric, weights
from drgcn.theory.dos import DOS


@dataclass(frozen=True)
class Reweighting:
    r"""A vector s with :math:`\sum_i s_i^2 = d` and what it gains by Theorem 1.

    Args:
        s (Tensor): Diagonal of :math:`\mathbf{S}`, not negative.
        gamma (float): :math:`\|T(\mathbf{SCS})\|_F / \|T(\mathbf{C})\|_F`; below one if it
            helps. The best found, not proven to be the least, unless the maker says so.
    """

    s: Tensor
    gamma: float


def reweighted_norm(s: Tensor, c: Tensor, dos: DOS) -> tuple[float, Tensor]:
    r"""The function that Appendix G minimises, and its gradient.

    .. math::
        f(\mathbf{s}) = \|T(\mathbf{SCS})\|_F^2, \quad
        \frac{\partial f}{\partial s_i} = 4 u^2 s_i^3 c_{ii}^2
        + 4 \sum_{j \neq i} T(\mathbf{SCS})_{ij} (2 v s_i c_{ii} + w s_j c_{ij})

    The printed line has :math:`c_{ii}` for its square, and 2 for the second 4.
    """
    c = symmetric(c)
    s = weights(s, c.size(0))
    image = dos.apply(s[:, None] * c * s)
    variance = c.diagonal()
    off = image - torch.diag(image.diagonal())
    pull = 2 * dos.v * s * variance * off.sum(1) + dos.w * (off * c) @ s
    gradient = 4 * dos.u**2 * s**3 * variance.square() + 4 * pull
    return float(image.square().sum()), gradient


def stationarity(c: Tensor, dos: DOS) -> Tensor:
    r"""The :math:`F_i` of Appendix G: S = I is stationary if and only if all are equal.

    Half the gradient of :func:`reweighted_norm` at ones. The multiplier is free, so that a
    single :math:`F_i` says nothing; the differences are :math:`d - 1` conditions. Theorem 1 can
    fail only where they hold, and need not fail there: S = I may be a maximum.
    """
    c = symmetric(c)
    return reweighted_norm(torch.ones(c.size(0)), c, dos)[1] / 2


def second_variation(d: int, rho: float, dos: DOS) -> float:
    r"""Curvature of f at S = I for the exceptional C with unit variances and correlations rho.

    :math:`f = f(1) + k \|\tau\|^2 + \dots` for :math:`s_i^2 = 1 + \tau_i`,
    :math:`\sum_i \tau_i = 0`, with :math:`k = u^2 + (2v + w\rho)(v(d - 2) - w\rho)`. Where k
    is negative some S near I makes f smaller, although S = I is stationary.
    """
    at_least(d, 2, "A variation with sum zero")
    return dos.u**2 + (2 * dos.v + dos.w * rho) * (dos.v * (d - 2) - dos.w * rho)


def descent_certificate(c: Tensor, dos: DOS) -> Reweighting | None:
    """One step down from S = I: proves gamma < 1 for this C, or None where S = I is stationary.

    The proof of Theorem 1 made a program: almost every C has one.
    """
    c = symmetric(c)
    d = at_least(c.size(0), 2, "Theorem 1")
    start = _start_norm(c, dos)
    slope = stationarity(c, dos)
    direction = slope.mean() - slope
    if float(direction.abs().max()) <= 1e-12 * max(start, float(slope.abs().max())):
        return None
    direction = direction / direction.abs().max()
    for halving in range(1, 50):
        s = (1 + 0.5**halving * direction).clamp(min=0.0)
        s = s * math.sqrt(d / float(s.square().sum()))
        value, _ = reweighted_norm(s, c, dos)
        if value < start * (1 - 1e-14):
            return Reweighting(s, math.sqrt(value / start))
    return None


def best_reweighting(c: Tensor, dos: DOS, *, starts: int = 6, seed: int = 0) -> Reweighting:
    r"""The least gamma found over :math:`s \geq 0`, :math:`\sum_i s_i^2 = d` (Theorem 1).

    L-BFGS on :math:`\theta` with :math:`s_i^2 = d \cdot \mathrm{softmax}(\theta)_i`, from ones,
    from inverse variances and from ``starts`` random points. Signs are left out: with them the
    problem contains maximum cuts, and a gate has none.
    """
    c = symmetric(c)
    d = at_least(c.size(0), 2, "Theorem 1")
    start = _start_norm(c, dos)
    draw = np.random.default_rng(seed)
    floor = 1e-3 * float(c.abs().max())
    first = -np.log(np.abs(c.diagonal().numpy()) + floor)
    points = [1e-3 * draw.standard_normal(d), first - first.mean()]
    points += [1.5 * draw.standard_normal(d) for _ in range(starts)]

    def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        s = _gate(theta, d)
        value, gradient = reweighted_norm(s, c, dos)
        value = max(value, 1e-300 * start)
        pull = (s * gradient / 2).numpy() / value
        # Of the logarithm, so that tolerances are relative when gamma is small.
        return math.log(value / start), pull - s.square().numpy() / d * pull.sum()

    options = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-10}
    found = [
        minimize(value_and_gradient, x, jac=True, method="L-BFGS-B", options=options)
        for x in points
    ]
    best = min(found, key=lambda result: float(result.fun))
    if best.fun >= 0:
        return Reweighting(torch.ones(d, dtype=torch.float64), 1.0)
    return Reweighting(_gate(best.x, d), math.exp(float(best.fun) / 2))


def _gate(theta: np.ndarray, d: int) -> Tensor:
    return (d * torch.softmax(torch.from_numpy(np.asarray(theta, dtype=np.float64)), 0)).sqrt()


def _start_norm(c: Tensor, dos: DOS) -> float:
    start = float(dos.apply(c).square().sum())
    if not start > 0:
        raise InputError("gamma divides by the norm of T(C); found T(C) = 0.")
    return start


def diagonal_reweighting(variance: Tensor, dos: DOS) -> Reweighting:
    r"""The s of least :math:`\|T(\mathbf{SCS})\|_F` for diagonal :math:`\mathbf{C}`, exactly.

    In :math:`\tau_i = s_i^2 c_{ii}` the objective of Appendix G is the convex

    .. math::
        (u^2 + (2d - 4) v^2) \sum_i \tau_i^2 + 2 v^2 \Big(\sum_i \tau_i\Big)^2
        \quad \text{on} \quad \sum_i \tau_i / c_{ii} = d, \; \tau \geq 0,

    so that :math:`\tau_i` is :math:`\lambda / c_{ii}` less a common level, or zero below it:
    mass goes to the dimensions of small variance. One variance of zero takes all of it, as does
    the smaller of two if u = 0.

    Args:
        variance (Tensor): Diagonal of :math:`\mathbf{C}`, ``[d]``, not negative.
        dos (DOS): The operator, with :math:`u \neq 0` or :math:`v \neq 0`.
    """
    variance = torch.as_tensor(variance).detach().to(torch.float64)
    d = at_least(variance.numel(), 2, "Theorem 1")
    if not bool(torch.isfinite(variance).all()) or bool((variance < 0).any()):
        raise InputError("Variances must be finite and not negative.")
    if not bool(variance.any()):
        raise InputError("gamma divides by the norm of T(C); found C = 0.")
    if dos.u == dos.v == 0:
        raise InputError(f"gamma divides by the norm of T(C); found T(C) = 0 for {dos}.")
    own = dos.u**2 + (2 * d - 4) * dos.v**2
    shared = 2 * dos.v**2
    if own == 0 or bool((variance == 0).any()):
        least = (variance == variance.min()).double()
        gamma = d * float(variance.min() / variance.sum())
        return Reweighting((d * least / least.sum()).sqrt(), gamma)
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
