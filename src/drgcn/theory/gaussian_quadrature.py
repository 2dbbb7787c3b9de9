"""Expectations under a bivariate normal distribution, exact for functions with a kink at zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

# Beyond ten standard deviations the density is below 1e-22.
_REACH = 10.0
_NODES = 80
_CHUNK = 128


def pair_expectation(
    f: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, c: Tensor
) -> Tensor:
    r"""Computes :math:`\mathbb{E} f(x, y)` with :math:`(x, y) \sim N(0, (a, c; c, b))`.

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
