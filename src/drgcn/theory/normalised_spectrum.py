"""Theorem 3, repaired: the spectrum of the normalised map at its fixed point."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.theory.activation import RELU, Activation
from drgcn.theory.conditions import at_least, symmetric
from drgcn.theory.derivative import dos_at_bsb1
from drgcn.theory.eigenspaces import decompose, diagonal_weights
from drgcn.theory.second_moment import homogeneous_moment
from drgcn.theory.sphere_quadrature import sphere_expectation
from drgcn.theory.symmetric_space import bsb1


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
