"""The covariance map with dimensional normalisation (Eq. 15), exactly, at any C and S."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from drgcn.errors import DimensionError, InputError, ZeroVarianceError
from drgcn.theory.activation import RELU, Activation
from drgcn.theory.conditions import at_least, covariance, positive_variances, symmetric, weights
from drgcn.theory.derivative import homogeneous_derivative
from drgcn.theory.second_moment import homogeneous_moment
from drgcn.theory.symmetric_space import centring

Normaliser = Literal["consistent", "printed"]

# The trapezoid rule in log s errs by exp(-2 pi^2 / step): far below rounding.
_STEP = 0.25
_DIGITS = 40.0
_NULL = 1e-13


def normalised_moment(
    c: Tensor,
    s: Tensor | None = None,
    *,
    normaliser: Normaliser = "consistent",
    activation: Activation = RELU,
) -> Tensor:
    r"""The map :math:`V_{d_\phi}(\mathbf{S}, \mathbf{C})` of Section 3.2 for (leaky) ReLU.

    .. math::
        V = \mathbb{E}[\phi(\mathbf{z}) \phi(\mathbf{z})^\top], \quad
        \mathbf{z} = \sqrt{d}\, \frac{G\mathbf{Sh}}{\|G\mathbf{Sh}\|}
        \;\text{(consistent) or}\; \sqrt{d}\, \frac{G\mathbf{Sh}}{\|G\mathbf{h}\|}
        \;\text{(printed, Eq. 15)}.

    As :math:`1 / n = \int_0^\infty e^{-t n} dt` and the tilted variable is normal again,
    with :math:`P = G\mathbf{SCS}G`

    .. math::
        V = d \int_0^\infty \frac{V_\phi(P (\mathbf{I} + 2tP)^{-1})}
        {\sqrt{\det(\mathbf{I} + 2tP)}}\, dt,

    likewise for the printed one. Only the consistent one is a function of
    :math:`\mathbf{SCS}`, as the paper's reduction says of both.

    Args:
        c (Tensor): Positive semidefinite ``[d, d]``, not constant over dimensions.
        s (Tensor, optional): Diagonal of :math:`\mathbf{S}`.
        normaliser (str): ``"consistent"`` or ``"printed"``.
        activation (Activation): ReLU or leaky ReLU.
    """
    slope = _homogeneous(activation)
    c = covariance(c)
    d = at_least(c.size(0), 2, "Dimensional normalisation")
    gate = weights(s, d)[:, None]
    value, vector = torch.linalg.eigh(c)
    root = vector * value.clamp(min=0.0).sqrt()
    g = centring(d)
    outer = g @ (gate * root)
    norm = outer if normaliser == "consistent" else g @ root
    stretch, basis = torch.linalg.eigh(norm.T @ norm)
    stretch = _without_rounding(stretch, float((gate * root).square().sum()))
    tail = int((stretch > 0).sum()) / 2
    if normaliser == "printed":
        tail -= 1
        if tail <= 0:
            raise DimensionError(
                "The mean of 1 / ||GH||^2 needs GCG of rank 3 or more; "
                f"found rank {int(2 * tail + 2)}."
            )
    factor = outer @ basis
    total = torch.zeros_like(c)
    for t, weight in _nodes(stretch, tail):
        shrink = 1 / (1 + 2 * t[:, None] * stretch)
        tilted = (factor * shrink[:, None, :]) @ factor.T
        density = weight * shrink.log().sum(1).mul(0.5).exp()
        total += (density[:, None, None] * homogeneous_moment(tilted, slope)).sum(0)
    return d * (total + total.T) / 2


def normalised_derivative(
    c: Tensor, direction: Tensor, s: Tensor | None = None, *, activation: Activation = RELU
) -> Tensor:
    r"""The derivative of :func:`normalised_moment` (consistent) at ``c`` along ``direction``.

    The :math:`J_{d_\phi}` of Theorem 3, here at any point: with
    :math:`R = (\mathbf{I} + 2tP)^{-1}` and :math:`D = G\mathbf{S}\Delta\mathbf{S}G`

    .. math::
        J(\Delta) = d \int_0^\infty \frac{J_\phi|_{RP}(R D R) - t\, \mathrm{tr}(R D)\,
        V_\phi(R P)}{\sqrt{\det(\mathbf{I} + 2tP)}}\, dt.

    V is homogeneous of degree zero in :math:`\mathbf{C}`, hence
    :math:`J(\mathbf{C}) = 0` at every :math:`\mathbf{C}` and for every :math:`\mathbf{S}`.
    """
    slope = _homogeneous(activation)
    c = covariance(c)
    d = at_least(c.size(0), 2, "Dimensional normalisation")
    gate = weights(s, d)
    g = centring(d)
    both = gate[:, None] * gate
    inner = symmetric(g @ (both * c) @ g)
    change = g @ (both * symmetric(direction, "The direction")) @ g
    stretch, basis = torch.linalg.eigh(inner)
    stretch = _without_rounding(stretch, float((both * c).trace()))
    positive_variances(inner, "The derivative of the normalised map (at GSCSG)")
    rotated = basis.T @ change @ basis
    total = torch.zeros_like(c)
    for t, weight in _nodes(stretch, int((stretch > 0).sum()) / 2):
        shrink = 1 / (1 + 2 * t[:, None] * stretch)
        tilted = (basis * (shrink * stretch)[:, None, :]) @ basis.T
        moved = basis @ (shrink[:, :, None] * rotated * shrink[:, None, :]) @ basis.T
        trace = t * (shrink * rotated.diagonal()).sum(1)
        density = weight * shrink.log().sum(1).mul(0.5).exp()
        image = homogeneous_derivative(tilted, moved, slope)
        image = image - trace[:, None, None] * homogeneous_moment(tilted, slope)
        total += (density[:, None, None] * image).sum(0)
    return d * (total + total.T) / 2


def _nodes(stretch: Tensor, tail: float) -> Iterator[tuple[Tensor, Tensor]]:
    """Nodes and weights on (0, inf), in pieces: the integrand decays like t ** -(1 + tail)."""
    low = -math.log(2 * float(stretch.max())) - _DIGITS
    least = float(stretch[stretch > 0].min())
    high = -math.log(2 * least) + _DIGITS / tail
    t = torch.arange(low, high, _STEP, dtype=torch.float64).exp()
    for piece in t.split(256):
        yield piece, _STEP * piece


def _without_rounding(stretch: Tensor, scale: float) -> Tensor:
    largest = float(stretch.max())
    if not largest > _NULL * scale:
        raise ZeroVarianceError(
            "The normaliser is zero: all dimensions are equal up to constants."
        )
    return torch.where(stretch > _NULL * largest, stretch, 0.0)


def _homogeneous(activation: Activation) -> float:
    if activation.negative_slope is None:
        raise InputError(
            f"The normalised map at any C is known for (leaky) ReLU; found {activation.name}. "
            "At its fixed point, normalised_spectrum takes any activation."
        )
    return activation.negative_slope
