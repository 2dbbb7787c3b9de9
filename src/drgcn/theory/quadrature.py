"""Expectations under a bivariate normal distribution and over a sphere."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

from drgcn.theory.conditions import at_least

# Beyond ten standard deviations the density is below 1e-22.
_REACH = 10.0
# cos(angle) ** n is below 1e-18 beyond nine standard deviations 1 / sqrt(n).
_SPHERE_REACH = 9.2
_NODES = 80
_CHUNK = 128


def pair_expectation(
    f: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, c: Tensor
) -> Tensor:
    r"""Return :math:`\mathbb{E} f(x, y)` with :math:`(x, y) \sim N(0, (a, c; c, b))`.

    Gauss-Legendre panels end where :math:`x = 0` and, for each :math:`x`, where :math:`y = 0`,
    so that a kink of the activation of Eq. 8 lies on a border and costs no accuracy.

    Args:
        f (Callable): Function of two tensors of one shape ``[m, p, p]``.
        a (Tensor): Variances of :math:`x`, ``[m]``.
        b (Tensor): Variances of :math:`y`, ``[m]``.
        c (Tensor): Covariances, ``[m]``.
    """
    parts = zip(a.split(_CHUNK), b.split(_CHUNK), c.split(_CHUNK), strict=True)
    return torch.cat([_expectation(f, *part) for part in parts])


def _expectation(f: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    zero = torch.zeros((), dtype=torch.float64)
    x, x_weight = panels(zero, _REACH)
    x_weight = x_weight * _density(x)
    spread = a.sqrt()[:, None]
    # A variable of no variance is constant, and tells nothing about the other one.
    lean = torch.where(spread > 0, c[:, None] / spread.clamp(min=1e-300), 0.0)
    mean = lean * x
    rest = (b[:, None] - lean.square()).clamp(min=0.0).sqrt()
    border = torch.where(rest > 0, -mean / rest.clamp(min=1e-300), 0.0)
    y, y_weight = panels(border.clamp(-_REACH, _REACH), _REACH)
    y_weight = y_weight * _density(y) * x_weight[:, None]
    first = (spread * x)[..., None].expand_as(y)
    second = mean[..., None] + rest[..., None] * y
    return (f(first, second) * y_weight).sum((-2, -1))


def panels(border: Tensor, reach: float, nodes: int = _NODES) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [-reach, border] and [border, reach], on a new last axis.

    Nodes crowd at the border, like squares: there a saturating activation is steep.
    """
    node, weight = legendre(nodes)
    t = (node + 1) / 2
    border = border[..., None]
    left, right = border + reach, reach - border
    points = torch.cat([border - left * t.square(), border + right * t.square()], -1)
    return points, torch.cat([left * t * weight, right * t * weight], -1)


@cache
def legendre(nodes: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of Gauss-Legendre quadrature on [-1, 1]."""
    node, weight = np.polynomial.legendre.leggauss(nodes)
    return torch.from_numpy(node), torch.from_numpy(weight)


def _density(x: Tensor) -> Tensor:
    return torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)


def sphere_expectation(f: Callable[[Tensor, Tensor], Tensor], d: int) -> float:
    r"""Return :math:`\mathbb{E} f(z_1, z_2)` for :math:`\mathbf{z}` uniform on a sphere.

    The sphere has radius :math:`\sqrt{d}` in :math:`\{\sum_i z_i = 0\}`: the law of
    :math:`\sqrt{d} G\mathbf{h} / \|G\mathbf{h}\|` of Eq. 15 at every BSB1 covariance. With
    :math:`\rho = -1 / (d - 1)`

    .. math::
        z_1 = \sqrt{d - 1} \sin\theta, \quad z_2 = \sqrt{d - 1} (\rho \sin\theta
        + \sqrt{1 - \rho^2} \cos\theta \sin\psi),

    and densities :math:`\cos^{d-3}\theta` and :math:`\cos^{d-4}\psi`: Gauss-Jacobi integrals
    written in angles. They are analytic up to the ends, so that panels may be cut where
    :math:`z_1` or :math:`z_2` changes sign, and kinks cost no accuracy.

    Args:
        f (Callable): Function of two tensors of one shape.
        d (int): Number of dimensions, at least 3; for d = 3 the sphere is a circle.
    """
    at_least(d, 3, "The law of two coordinates on the sphere")
    rho = -1 / (d - 1)
    radius, side = math.sqrt(d - 1), math.sqrt(1 - rho * rho)
    theta, theta_weight = _outer_angles(d - 3, math.atan(side / -rho))
    if d == 3:
        psi = torch.tensor([-math.pi / 2, math.pi / 2], dtype=torch.float64).expand(len(theta), 2)
        psi_weight = torch.full_like(psi, 0.5)
    else:
        border = (-rho * theta.tan() / side).clamp(-1.0, 1.0).asin()
        psi, psi_weight = _inner_angles(border, d - 4)
    first = (radius * theta.sin())[:, None].expand_as(psi)
    second = rho * first + radius * side * theta.cos()[:, None] * psi.sin()
    weight = theta_weight[:, None] * psi_weight
    return float((f(first, second) * weight).sum() / weight.sum())


def _outer_angles(power: int, last: float) -> tuple[Tensor, Tensor]:
    """Panels that end at zero and at ``last``, beyond which z_2 has one sign."""
    reach = _reach(power)
    end = min(last, reach)
    node, weight = panels(torch.zeros((), dtype=torch.float64), 1.0, _NODES)
    # The inner integral has a root at ``last``: squared there, the angle is smooth again.
    inner = end * node.sign() * (1 - (1 - node.abs()).square())
    inner_weight = 2 * end * weight * (1 - node.abs())
    middle, half = (reach + end) / 2, (reach - end) / 2
    base, base_weight = legendre(_NODES)
    outer = torch.cat([-middle + half * base, middle + half * base])
    angle = torch.cat([inner, outer])
    return angle, torch.cat([inner_weight, half * base_weight, half * base_weight]) * (
        angle.cos() ** power
    )


def _inner_angles(border: Tensor, power: int) -> tuple[Tensor, Tensor]:
    reach = _reach(power)
    angle, weight = panels(border.clamp(-reach, reach), reach, _NODES)
    return angle, weight * angle.cos() ** power


def _reach(power: int) -> float:
    return min(math.pi / 2, _SPHERE_REACH / math.sqrt(power)) if power else math.pi / 2
