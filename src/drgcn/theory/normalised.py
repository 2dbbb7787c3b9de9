"""The covariance map with dimensional normalisation (Eq. 15), and its spectrum (Theorem 3)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from drgcn.errors import DimensionError, InputError, ZeroVarianceError
from drgcn.theory.conditions import at_least, covariance, positive_variances, symmetric, weights
from drgcn.theory.dos import bsb1, centring, decompose, diagonal_weights
from drgcn.theory.maps import (
    RELU,
    Activation,
    dos_at_bsb1,
    homogeneous_derivative,
    homogeneous_moment,
)
from drgcn.theory.quadrature import sphere_expectation

Normaliser = Literal["consistent", "printed", "mean"]

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
        \;\text{(printed, Eq. 15)}
        \;\text{or}\; \sqrt{d}\, \frac{G\mathbf{Sh}}{\sqrt{\mathbb{E}\|G\mathbf{h}\|^2}}
        \;\text{(mean)}.

    As :math:`1 / n = \int_0^\infty e^{-t n} dt` and the tilted variable is normal again,
    with :math:`P = G\mathbf{SCS}G`

    .. math::
        V = d \int_0^\infty \frac{V_\phi(P (\mathbf{I} + 2tP)^{-1})}
        {\sqrt{\det(\mathbf{I} + 2tP)}}\, dt,

    likewise for the printed one. Only the consistent one is a function of
    :math:`\mathbf{SCS}`, as the paper's reduction says of the printed one. With the mean, the
    trace of V is :math:`\frac{d}{2} K` for ReLU and :math:`\frac{1}{d} \sum_i s_i^2 = 1`.

    Args:
        c (Tensor): Positive semidefinite ``[d, d]``, not constant over dimensions.
        s (Tensor, optional): Diagonal of :math:`\mathbf{S}`.
        normaliser (str): ``"consistent"``, ``"printed"`` or ``"mean"``.
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
    if normaliser == "mean":
        return d / stretch.sum() * homogeneous_moment(symmetric(outer @ outer.T), slope)
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


@dataclass(frozen=True)
class NormalisedSpectrum:
    r"""Fixed point and eigenvalues of :math:`V_{d_\phi}` (Theorem 3).

    Args:
        d (int): Number of dimensions.
        q (float): Variance at the fixed point.
        c (float): Correlation at the fixed point.
        lambda_l (float): Eigenvalue of :math:`V_L`, after projection by G.
        lambda_m (float, optional): Eigenvalue of :math:`V_M`; None for d = 3, where it is zero
            dimensional.
        lambda_g_backward (float, optional): :math:`E[A^\top G A] = \lambda G` for the Jacobian
            A of one layer: the number above one that the paper gives to the forward map.
            None for d = 3, where it is infinite.
        tilt (float): The k of :meth:`eigenvector_l`.
    """

    d: int
    q: float
    c: float
    lambda_l: float
    lambda_m: float | None
    lambda_g_backward: float | None
    tilt: float

    @property
    def lambda_g(self) -> float:
        r"""Eigenvalue of :math:`V_G` forward: zero, as :math:`\mathbf{z}^\top G\mathbf{z} = d`."""
        return 0.0

    @property
    def fixed_point(self) -> Tensor:
        """The matrix C* of Theorem 2; every BSB1 matrix with c < 1 is sent to it in one step."""
        return bsb1(self.d, self.q, self.c)

    def eigenvector_l(self, delta: Tensor) -> Tensor:
        r"""An eigenvector of J itself for :math:`\lambda_L`, from delta with sum zero.

        :math:`G D G + k (\delta \mathbf{1}^\top + \mathbf{1} \delta^\top)` with
        :math:`D = \mathrm{diag}(\delta)`. The printed :math:`V_L`, which has k = 0, is an
        eigenspace only of J followed by the projection with G.
        """
        delta = torch.as_tensor(delta).detach().to(torch.float64)
        if delta.shape != (self.d,) or abs(float(delta.sum())) > 1e-12 * float(delta.abs().sum()):
            raise InputError(f"delta must have {self.d} entries that sum to zero.")
        light = decompose(torch.diag(delta)).l
        return light + self.tilt * (delta[:, None] + delta)

    def apply(self, direction: Tensor) -> Tensor:
        """J at the fixed point along a symmetric ``direction``, for any activation."""
        direction = symmetric(direction, "The direction")
        image = self.lambda_l * self.eigenvector_l(diagonal_weights(direction))
        return image if self.lambda_m is None else image + self.lambda_m * decompose(direction).m


def normalised_spectrum(d: int, activation: Activation = RELU) -> NormalisedSpectrum:
    r"""Theorem 3 for any activation: with :math:`\mu = q^*(1 - c^*)`

    .. math::
        \lambda_L &= \tfrac{1}{2\mu} \Big(\mathbb{E}[\phi_1^2 (z_1^2 - 1)]
        - \tfrac{2(d-1)}{d-2} \mathbb{E}[\phi_1 \phi_2 (z_1^2 - 1)]\Big) \\
        \lambda_M &= \tfrac{d-1}{d\mu} \mathbb{E}\Big[\phi_1 \phi_2 \Big(z_1 z_2
        + \tfrac{(z_1 + z_2)^2}{d-2}
        + \tfrac{(z_1 + z_2)^2 - d + z_1^2 + z_2^2}{(d-2)(d-3)}\Big)\Big] \\
        \lambda_G^{back} &= \tfrac{1}{(d-3)\mu} \mathbb{E}[(d - 1 - z_1^2) \phi_1'^2
        + (1 + z_1 z_2) \phi_1' \phi_2'],

    in closed form for ReLU and leaky ReLU. That the first two are below one is a property of the
    activation, not a theorem: squared ReLU breaks it from d = 7 on.

    Args:
        d (int): Number of dimensions, at least 3.
        activation (Activation): The function :math:`\phi`.
    """
    at_least(d, 3, "The spectrum of Theorem 3")
    if activation.negative_slope is not None:
        return _closed_form(d, activation)
    phi, slope = activation, activation.slope
    q = sphere_expectation(lambda x, _: phi(x).square(), d)
    qc = sphere_expectation(lambda x, y: phi(x) * phi(y), d)
    mu = _spread(q, qc, activation)
    own = sphere_expectation(lambda x, _: phi(x).square() * (x * x - 1), d)
    pair = sphere_expectation(lambda x, y: phi(x) * phi(y) * (x * x - 1), d)
    lambda_l = (own - 2 * (d - 1) / (d - 2) * pair) / (2 * mu)
    lambda_m = backward = None
    if d > 3:

        def coupling(x: Tensor, y: Tensor) -> Tensor:
            both = (x + y).square()
            rest = (both - d + x * x + y * y) / ((d - 2) * (d - 3))
            return phi(x) * phi(y) * (x * y + both / (d - 2) + rest)

        def gain(x: Tensor, y: Tensor) -> Tensor:
            a, b = slope(x), slope(y)
            return (d - 1 - x * x) * a * a + (1 + x * y) * a * b

        lambda_m = (d - 1) / (d * mu) * sphere_expectation(coupling, d)
        backward = sphere_expectation(gain, d) / ((d - 3) * mu)
    tilt = _tilt(d, lambda_l, (d - 1) / (2 * (d - 2) * mu) * pair)
    return NormalisedSpectrum(d, q, qc / q, lambda_l, lambda_m, backward, tilt)


def _closed_form(d: int, activation: Activation) -> NormalisedSpectrum:
    """On traceless matrices of range G, J is d / (mu (d + 1)) times V's own derivative."""
    rho = -1 / (d - 1)
    dos = dos_at_bsb1(rho, activation)
    moment = homogeneous_moment(bsb1(2, 1.0, rho), activation.negative_slope or 0.0)
    q, qc = float(moment[0, 0]), float(moment[0, 1])
    mu = _spread(q, qc, activation)
    lambda_l = ((d - 2) * (dos.u - 2 * dos.v) + 2 * dos.w) / (mu * (d + 1))
    lambda_m = backward = None
    if d > 3:
        lambda_m = d * dos.w / (mu * (d + 1))
        backward = ((d - 2) * q + dos.w + qc) / ((d - 3) * mu)
    # Off the diagonal GDG has -(delta_i + delta_j) / d, and (1 - 2 / d) delta_i on it.
    share = (dos.v * (d - 2) - dos.w) / (mu * (d + 1))
    return NormalisedSpectrum(
        d, q, qc / q, lambda_l, lambda_m, backward, _tilt(d, lambda_l, share)
    )


def _tilt(d: int, lambda_l: float, off_diagonal: float) -> float:
    # J(GDG) has off_diagonal (delta_i + delta_j) off the diagonal; GDG itself -1 / d.
    return 0.0 if lambda_l == 0 else (lambda_l / d + off_diagonal) / lambda_l


def _spread(q: float, qc: float, activation: Activation) -> float:
    if not q - qc > 1e-14 * max(q, 1e-300):
        raise InputError(
            f"{activation.name} sends every normalised input to equal dimensions: "
            "its fixed point has c* = 1, where the normalised map has no derivative."
        )
    return q - qc
