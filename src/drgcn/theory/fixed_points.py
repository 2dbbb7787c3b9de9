"""Fixed points of Eq. 10, and deviations from them layer by layer (Theorem 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from scipy.optimize import brentq
from torch import Tensor

from drgcn.errors import InputError
from drgcn.theory.conditions import correlation, covariance, symmetric, weights
from drgcn.theory.conditions import variance as positive
from drgcn.theory.dos import Parts, decompose, spectral_radius
from drgcn.theory.maps import RELU, Activation, arc_cosine, second_moment
from drgcn.theory.normalised import (
    Normaliser,
    normalised_derivative,
    normalised_moment,
    normalised_spectrum,
)

Kind = Literal["bsb1", "zero", "line", "diverges"]


@dataclass(frozen=True)
class FixedPoint:
    """Limit of the recursion: a BSB1 matrix, zero, a point that depends on the start, or none.

    Args:
        kind (str): ``"bsb1"``, ``"zero"``, ``"line"`` (every q is fixed) or ``"diverges"``.
        q (float, optional): Limit of the variances, where there is one.
        c (float, optional): Limit of the correlations, where there is one.
    """

    kind: Kind
    q: float | None
    c: float | None


def sample_fixed_point(weight_variance: float, bias_variance: float) -> FixedPoint:
    r"""Limit of sample covariances, averaged over weights: the reading of Eq. 10 with BSB1.

    .. math::
        \Sigma \leftarrow \sigma_w^2 V_\phi(\Sigma) + \sigma_b^2 \mathbf{1}\mathbf{1}^\top

    For :math:`\sigma_w^2 < 2` the only fixed point that is not zero has :math:`c^* = 1`: there
    J is half the identity, and what Appendices G and H ask of u, v and w fails.
    """
    return _limit(weight_variance, bias_variance, share=0.5, c=1.0)


def unmixed_fixed_point(weight_variance: float, bias_variance: float) -> FixedPoint:
    r"""Limit of Eq. 11 as printed, where features do not mix and their biases are independent.

    .. math::
        \mathbf{C} \leftarrow \sigma_w^2 V_\phi(\mathbf{C}) + \sigma_b^2 \mathbf{I}

    is Eq. 10 for :math:`\mathbf{W} = \sigma_w \mathbf{I}`. Its :math:`c^*` is the one solution of
    :math:`c = \frac{1}{2} \sigma_w^2 \kappa(c)`, strictly between 0 and 1 for
    :math:`0 < \sigma_w^2 < 2`: here the derivative of the recursion is a DOS operator with
    :math:`v \neq 0` and :math:`w \neq u`.
    """
    limit = _limit(weight_variance, bias_variance, share=0.5, c=1.0)
    if limit.kind != "bsb1":
        return limit
    share = weight_variance / 2
    # Convex in c, positive at 0 and negative at 1.
    c = brentq(lambda c: share * arc_cosine(c) - c, 0.0, 1.0, xtol=1e-15)
    return FixedPoint("bsb1", limit.q, float(c))


def feature_fixed_point(
    weight_variance: float, bias_variance: float, *, centred: bool = False
) -> FixedPoint:
    r"""Limit of feature covariances, averaged over independent weights and biases.

    .. math::
        \mathbf{C} \leftarrow (\sigma_w^2 \tfrac{1}{d} \mathrm{tr}\, V_\phi(\mathbf{C})
        + \sigma_b^2)\, \mathbf{I}

    so that :math:`c^* = 0`. The derivative of this map is
    :math:`\sigma_w^2 \frac{u}{d} \mathrm{tr}(\mathbf{D})\, \mathbf{I}`, of rank one: it is not
    the J of Appendix G, which is that of V. With ``centred``, V is replaced by the covariance of
    the activations, which Eq. 9 needs.
    """
    share = 0.5 - centred / (2 * math.pi)
    return _limit(weight_variance, bias_variance, share=share, c=0.0)


def _limit(weight_variance: float, bias_variance: float, *, share: float, c: float) -> FixedPoint:
    if not 0 <= weight_variance < math.inf or not 0 <= bias_variance < math.inf:
        raise InputError(
            "The variances of weights and biases must be finite and not negative; "
            f"found {weight_variance} and {bias_variance}."
        )
    slope = weight_variance * share
    if slope < 1:
        if bias_variance == 0:
            return FixedPoint("zero", 0.0, None)
        return FixedPoint("bsb1", bias_variance / (1 - slope), c)
    if slope == 1 and bias_variance == 0:
        return FixedPoint("line", None, c)
    return FixedPoint("diverges", None, c)


def layer_covariance(
    c: Tensor, weight: Tensor, bias: Tensor, activation: Activation = RELU
) -> Tensor:
    r"""Eq. 9, :math:`\mathbf{W} V_\phi(\mathbf{I}, \mathbf{C}) \mathbf{W}^\top + \mathrm{Cov}(b)`.

    Eq. 11 leaves out the weights, which is right for :math:`\mathbf{W} = \mathbf{I}` only. BSB1
    matrices stay BSB1 if :math:`\mathbf{W}` is a multiple of an orthogonal matrix and maps
    :math:`\mathbf{1}` to a multiple of itself.
    """
    weight = torch.as_tensor(weight).detach().to(torch.float64)
    moment = second_moment(c, activation)
    if weight.dim() != 2 or weight.size(1) != moment.size(0):
        raise InputError(
            f"The weights must have the shape [*, {moment.size(0)}]; found {list(weight.shape)}."
        )
    return symmetric(weight @ moment @ weight.T) + covariance(bias, "Cov(b)")


def iterate_bsb1(
    q: float, c: float, weight_variance: float, bias_variance: float, layers: int
) -> tuple[float, float]:
    r"""(q, c) after ``layers`` steps of the recursion of :func:`sample_fixed_point`.

    At :math:`\sigma_w^2 = 2` and no bias :math:`1 - c_l \sim 9 \pi^2 / 2 l^2`: too slow to
    find the limit by iterating.
    """
    q, c = positive(q), correlation(c)
    for _ in range(layers):
        weighted = weight_variance * q / 2
        q, old = weighted + bias_variance, c
        if not 0 < q < math.inf:
            raise InputError(f"The variance left the positive numbers: found {q}.")
        c = min((weighted * arc_cosine(old) + bias_variance) / q, 1.0)
    return q, c


def iterate_samples(
    c: Tensor,
    weight_variance: float,
    bias_variance: float,
    layers: int,
    activation: Activation = RELU,
) -> Tensor:
    """A whole matrix after ``layers`` steps of the recursion of :func:`sample_fixed_point`."""
    c = covariance(c)
    for _ in range(layers):
        c = weight_variance * second_moment(c, activation) + bias_variance
    return c


def deviations(deviation: Tensor, layers: int, activation: Activation = RELU) -> list[Parts]:
    r"""Deviations from :math:`\mathbf{C}^*` after 0, 1, ... ``layers`` layers of Eq. 15, S = I.

    Theorem 2 says that they grow; with the exact map they shrink: the part in :math:`V_G` is
    gone after one layer, those in :math:`V_L` and :math:`V_M` go by their eigenvalues.
    """
    fixed = normalised_spectrum(deviation.size(0), activation).fixed_point
    c = fixed + deviation
    found = [decompose(deviation)]
    for _ in range(layers):
        c = normalised_moment(c, activation=activation)
        found.append(decompose(c - fixed))
    return found


def reweighted_fixed_point(
    s: Tensor,
    *,
    normaliser: Normaliser = "consistent",
    activation: Activation = RELU,
    tolerance: float = 1e-12,
    layers: int = 2000,
) -> Tensor:
    r"""The :math:`\mathbf{C}` with :math:`V_{d_\phi}(\mathbf{S}, \mathbf{C}) = \mathbf{C}`.

    For S other than a multiple of I it is not BSB1, so that Theorem 3 does not apply there.
    """
    s = weights(s, s.numel())
    c = normalised_spectrum(s.numel(), activation).fixed_point
    for _ in range(layers):
        after = normalised_moment(c, s, normaliser=normaliser, activation=activation)
        if float((after - c).abs().max()) <= tolerance * float(after.abs().max()):
            return after
        c = after
    raise InputError(f"The recursion did not settle within {layers} layers for this s.")


def growth_rate(s: Tensor, *, activation: Activation = RELU) -> float:
    r"""Rate of small deviations per layer if s acts in every layer, at its own fixed point.

    The spectral radius of the derivative, which Theorem 2 claims to be proportional to K.
    """
    fixed = reweighted_fixed_point(s, activation=activation)
    return spectral_radius(
        lambda change: normalised_derivative(fixed, change, s, activation=activation), s.numel()
    )


def backward_gain(c: Tensor, s: Tensor, *, samples: int = 20_000, seed: int = 0) -> float:
    r"""Mean squared gain of gradients through one layer of Eq. 15 with ReLU, by Monte Carlo.

    :math:`\frac{1}{d - 1} \mathbb{E} \|G A\|_F^2` for the Jacobian A from
    :math:`G\mathbf{Sh}` to the output. At :math:`\mathbf{C}^*` and S = I it is the backward
    eigenvalue of Theorem 3.
    """
    d = c.size(0)
    s = weights(s, d)
    value, vector = torch.linalg.eigh(c)
    draw = torch.Generator().manual_seed(seed)
    noise = torch.randn(samples, d, dtype=torch.float64, generator=draw)
    x = (noise * value.clamp(min=0.0).sqrt()) @ vector.T * s
    x = x - x.mean(1, keepdim=True)
    z = x * (d**0.5 / x.norm(dim=1, keepdim=True))
    on = (z > 0).double()
    # tr(G D A D) with D the slopes and A = G - z z^T / d, entry by entry.
    count = on.sum(1)
    own = count - (count + (on * z).square().sum(1)) / d
    shared = count - (count.square() + (on * z).sum(1).square()) / d
    return float((d / x.square().sum(1) * (own - shared / d)).mean() / (d - 1))
