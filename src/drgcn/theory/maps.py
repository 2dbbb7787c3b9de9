"""The covariance map V of Eq. 8 and its derivative J of Eq. 12."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.theory.conditions import correlation, covariance, positive_variances, symmetric, weights
from drgcn.theory.conditions import variance as positive
from drgcn.theory.dos import DOS
from drgcn.theory.quadrature import pair_expectation

# Angles to -1 below which sin e - e cos e is summed as a series: the difference loses e^-2.
_SERIES = 0.1


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


def derivative(c: Tensor, direction: Tensor, activation: Activation = RELU) -> Tensor:
    r"""The image of ``direction`` under :math:`J_\phi`, the derivative of V at ``c`` (Eq. 12).

    .. math::
        J(\mathbf{D})_{ij} = \alpha_{ij} D_{ii} + \alpha_{ji} D_{jj} + \beta_{ij} D_{ij}, \quad
        \beta_{ij} = \mathbb{E}[\phi'(h_i) \phi'(h_j)], \quad
        \alpha_{ij} = \frac{\mathbb{E}[h_i \phi'(h_i) \phi(h_j)] - c_{ij} \beta_{ij}}{2 c_{ii}}.

    For ReLU the coefficients are those of one DOS operator if and only if all correlations are
    equal, and all variances too unless the correlations are 1 (or -1, for d = 2); not at every
    point as Appendix G says.

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
