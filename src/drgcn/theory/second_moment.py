"""The covariance map V of Eq. 8: second moments of an activation of normal variables."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.theory.activation import RELU, Activation
from drgcn.theory.conditions import covariance, weights
from drgcn.theory.gaussian_quadrature import pair_expectation

# Angles to -1 below which sin e - e cos e is summed as a series: the difference loses e^-2.
_SERIES = 0.1


def second_moment(c: Tensor, activation: Activation = RELU, s: Tensor | None = None) -> Tensor:
    r"""The map :math:`V_\phi(\mathbf{S}, \mathbf{C})` of Eq. 8.

    .. math::
        V_\phi(\mathbf{S}, \mathbf{C}) = \mathbb{E}[\phi(\mathbf{S}\mathbf{h})
        \phi(\mathbf{S}\mathbf{h})^\top], \quad \mathbf{h} \sim N(0, \mathbf{C}).

    In closed form for ReLU and leaky ReLU, by quadrature for any other function.

    Args:
        c (Tensor): Positive semidefinite matrix ``[d, d]``; variances may be zero.
        activation (Activation): The function :math:`\phi`.
        s (Tensor, optional): Diagonal of :math:`\mathbf{S}`.
    """
    c = covariance(c)
    s = weights(s, c.size(0))
    c = s[:, None] * c * s
    if activation.negative_slope is not None:
        return homogeneous_moment(c, activation.negative_slope)
    row, col = torch.triu_indices(c.size(0), c.size(0)).unbind()
    variance = c.diagonal()
    values = pair_expectation(
        lambda x, y: activation(x) * activation(y), variance[row], variance[col], c[row, col]
    )
    v = torch.zeros_like(c)
    v[row, col] = values
    v[col, row] = values
    return v


def homogeneous_moment(c: Tensor, negative_slope: float = 0.0) -> Tensor:
    r"""Eq. 8 in closed form for leaky ReLU, on a batch ``[..., d, d]`` that is not checked.

    With :math:`\delta = \sqrt{c_{ii} c_{jj} - c_{ij}^2}` and :math:`\theta` the angle of
    :math:`(c_{ij}, \delta)`, ReLU has :math:`V_{ij} = (\delta + (\pi - \theta) c_{ij}) / 2\pi`,
    in which nothing is divided by a variance; leaky ReLU is
    :math:`a c_{ij} + (1 - a)^2 V_{ij}`.
    """
    variance = c.diagonal(dim1=-2, dim2=-1).clamp(min=0.0)
    scale = variance.sqrt()[..., None] * variance.sqrt()[..., None, :]
    sine = ((scale - c) * (scale + c)).clamp(min=0.0).sqrt()
    rest = math.pi - torch.atan2(sine, c)  # the angle that is left to correlation -1
    plain = sine + rest * c
    e = rest.square()
    series = scale * rest * e * (1 / 3 - e * (1 / 30 - e * (1 / 840 - e / 45360)))
    v = torch.where(rest < _SERIES, series, plain) / (2 * math.pi)
    # No variance has no angle: atan2(0, 0) would leave rest = pi, and 0 either way.
    v = v - torch.diag_embed(v.diagonal(dim1=-2, dim2=-1)) + torch.diag_embed(variance / 2)
    return negative_slope * c + (1 - negative_slope) ** 2 * v


def sampled_second_moment(
    c: Tensor, activation: Activation = RELU, *, samples: int = 100_000, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Eq. 8 by Monte Carlo: the mean over ``samples`` draws and its standard error."""
    if samples < 2:
        raise InputError(f"A standard error needs two samples; found {samples}.")
    value, vector = torch.linalg.eigh(covariance(c))
    root = vector * value.clamp(min=0.0).sqrt()
    draw = torch.Generator().manual_seed(seed)
    h = torch.randn(samples, c.size(0), dtype=torch.float64, generator=draw) @ root.T
    x = activation(h)
    mean = x.T @ x / samples
    square = x.square().T @ x.square() / samples
    return mean, ((square - mean.square()).clamp(min=0.0) / (samples - 1)).sqrt()


def arc_cosine(rho: float) -> float:
    r"""The kernel :math:`\kappa(\rho) = 2 V_{12}` of ReLU at unit variances (Eq. 8)."""
    matrix = torch.tensor([[1.0, rho], [rho, 1.0]], dtype=torch.float64)
    return 2 * float(second_moment(matrix)[0, 1])


def arc_cosine_slope(rho: float) -> float:
    r""":math:`\kappa'(\rho) = (\pi - \arccos \rho) / \pi`, the slope of :func:`arc_cosine`."""
    return (math.pi - math.acos(rho)) / math.pi
