"""The derivative J of the covariance map (Eq. 12), anywhere and at symmetric points."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from drgcn.theory.activation import RELU, Activation
from drgcn.theory.conditions import correlation, covariance, positive_variances, symmetric
from drgcn.theory.conditions import variance as positive
from drgcn.theory.diagonal_off_diagonal import DOS
from drgcn.theory.gaussian_quadrature import pair_expectation


def derivative(c: Tensor, direction: Tensor, activation: Activation = RELU) -> Tensor:
    r"""The image of ``direction`` under :math:`J_\phi`, the derivative of V at ``c`` (Eq. 12).

    .. math::
        J(\mathbf{D})_{ij} = \alpha_{ij} D_{ii} + \alpha_{ji} D_{jj} + \beta_{ij} D_{ij}, \quad
        \beta_{ij} = \mathbb{E}[\phi'(h_i) \phi'(h_j)], \quad
        \alpha_{ij} = \frac{\mathbb{E}[h_i \phi'(h_i) \phi(h_j)] - c_{ij} \beta_{ij}}{2 c_{ii}}.

    The coefficients are those of one DOS operator only if all variances and all correlations
    are equal, not at every point as Appendix G says.

    Args:
        c (Tensor): Positive semidefinite matrix ``[d, d]`` with positive variances.
        direction (Tensor): Symmetric matrix ``[d, d]``.
        activation (Activation): The function :math:`\phi`.
    """
    c = positive_variances(covariance(c), "The derivative of V")
    direction = symmetric(direction, "The direction")
    if activation.negative_slope is not None:
        return homogeneous_derivative(c, direction, activation.negative_slope)
    alpha, beta, own = _coefficients(c, activation)
    variance = direction.diagonal()
    image = alpha * variance[:, None] + alpha.T * variance + beta * direction
    return image.fill_diagonal_(0.0) + torch.diag(own * variance)


def homogeneous_derivative(c: Tensor, direction: Tensor, negative_slope: float = 0.0) -> Tensor:
    r"""Eq. 12 in closed form for leaky ReLU, on batches ``[..., d, d]`` that are not checked.

    ReLU has :math:`\alpha_{ij} = \sqrt{c_{jj} / c_{ii}} \sin\theta_{ij} / 4\pi` and
    :math:`\beta_{ij} = (\pi - \theta_{ij}) / 2\pi`.
    """
    scale = c.diagonal(dim1=-2, dim2=-1).sqrt()
    rho = c / (scale[..., None] * scale[..., None, :])
    sine = ((1 - rho) * (1 + rho)).clamp(min=0.0).sqrt()
    relative = direction.diagonal(dim1=-2, dim2=-1) / scale.square()
    lean = scale[..., None] * scale[..., None, :] * sine / (4 * math.pi)
    beta = (math.pi - torch.atan2(sine, rho)) / (2 * math.pi)
    image = lean * (relative[..., None] + relative[..., None, :]) + beta * direction
    half = direction.diagonal(dim1=-2, dim2=-1) / 2
    image = image + torch.diag_embed(half - image.diagonal(dim1=-2, dim2=-1))
    return negative_slope * direction + (1 - negative_slope) ** 2 * image


def dos_at_bsb1(c: float, activation: Activation = RELU, q: float = 1.0) -> DOS:
    r"""J at the point :math:`q((1 - c)\mathbf{I} + c \mathbf{1}\mathbf{1}^\top)` of Section 3.1.

    For ReLU, whatever :math:`q` is, :math:`u = 1/2`, :math:`v = \sqrt{1 - c^2} / 4\pi` and
    :math:`w = (\pi - \arccos c) / 2\pi`; at :math:`c = 1` this is half the identity, where
    neither :math:`v \neq 0` nor :math:`w \neq u` holds.
    """
    c, q = correlation(c), positive(q)
    a = activation.negative_slope
    if a is not None:
        v = math.sqrt((1 - c) * (1 + c)) / (4 * math.pi)
        w = (math.pi - math.acos(c)) / (2 * math.pi)
        return DOS((1 + a * a) / 2, (1 - a) ** 2 * v, a + (1 - a) ** 2 * w)
    pair = q * torch.tensor([[1.0, c], [c, 1.0]], dtype=torch.float64)
    alpha, beta, own = _coefficients(pair, activation)
    return DOS(float(own[0]), float(alpha[0, 1]), float(beta[0, 1]))


def centred_relu_dos(c: float) -> DOS:
    r"""The derivative at a BSB1 point of the covariance of ReLU, with the means taken off.

    Eq. 9 needs :math:`\mathrm{Cov}(\phi)`, not the second moment of Eq. 8.
    """
    dos = dos_at_bsb1(c)
    return DOS(dos.u - 1 / (2 * math.pi), dos.v - 1 / (4 * math.pi), dos.w)


def _coefficients(c: Tensor, activation: Activation) -> tuple[Tensor, Tensor, Tensor]:
    d = c.size(0)
    row, col = (index.flatten() for index in torch.meshgrid(*[torch.arange(d)] * 2, indexing="ij"))
    variance = c.diagonal()
    law = (variance[row], variance[col], c[row, col])
    slope = activation.slope
    beta = pair_expectation(lambda x, y: slope(x) * slope(y), *law).view(d, d)
    # Stein's identity puts the second derivative of phi into a moment of the first.
    lean = pair_expectation(lambda x, y: x * slope(x) * activation(y), *law).view(d, d)
    own = pair_expectation(
        lambda x, _: x * slope(x) * activation(x), variance, variance, torch.zeros_like(variance)
    )
    return (lean - c * beta) / (2 * variance[:, None]), beta, own / variance
