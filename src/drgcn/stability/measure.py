"""The stability measure K: how reweighting changes the spread across feature dimensions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from drgcn.errors import InputError, NonFiniteError, UndefinedStability
from drgcn.stability.covariance_checks import checked_covariance
from drgcn.stability.moments import FeatureMoments
from drgcn.stability.number_checks import real_tensor
from drgcn.stability.rows import checked_features
from drgcn.stability.variances import feature_variance

ROUNDING = 1e-12


def stability_k(
    x: Any,
    s: Any,
    *,
    center: bool = True,
    weight: Any = None,
    covariance: bool = False,
) -> float:
    r"""The measure :math:`K` of the paper for a layer with input ``x`` and vector ``s``.

    With :math:`\mathbf{C}` the covariance of the feature dimensions over nodes,

    .. math::
        K = \frac{\sum_i c_{ii} s_i^2 - \frac{1}{d} \sum_{ij} c_{ij} s_i s_j}
        {(\sum_i c_{ii} - \frac{1}{d} \sum_{ij} c_{ij}) \cdot \frac{1}{d} \sum_i s_i^2},

    the mean over nodes of the variance across dimensions after reweighting, relative to
    before and to the scale of ``s``. A constant ``s`` has :math:`K = 1`; damping the
    dimensions of large variance gives :math:`K < 1`. From data the covariance matrix is never
    formed: the double sums are variances of :math:`\mathbf{X}\mathbf{s}` and
    :math:`\mathbf{X}\mathbf{1}`, which cost :math:`O(nd)`.

    A matrix is taken for features, square or not; only ``covariance=True`` makes it a
    covariance. Nothing is guessed from its shape or symmetry.

    Args:
        x (Tensor, numpy.ndarray or FeatureMoments): Node features ``[n, d]``, dense or sparse;
            their moments; or, with ``covariance``, their covariance ``[d, d]``.
        s (Tensor): Reweighting vector ``[d]``.
        center (bool, optional): Take covariances; else mean products :math:`E[x_i x_j]`. Says
            nothing to a covariance that is given. (default: :obj:`True`)
        weight (Tensor, optional): Weight of each row of features. (default: one)
        covariance (bool, optional): ``x`` is a covariance. (default: :obj:`False`)

    Raises:
        UndefinedStability: If there is one dimension, no variance, no difference between
            dimensions but constants, or if ``s`` is zero; the message says which.
        CovarianceError: If a covariance is not symmetric or not positive semi-definite.
        NonFiniteError: If a value is not finite; the message says where.

    Example:
        >>> x = torch.tensor([[0.0, 0.0], [1.0, 10.0], [2.0, -10.0]])
        >>> stability_k(x, torch.tensor([1.0, 1.0]))
        1.0
        >>> round(stability_k(x, torch.tensor([1.0, 0.1])), 3)
        0.054
    """
    if weight is not None and (covariance or isinstance(x, FeatureMoments)):
        raise InputError("Expected row weights with features alone; moments have theirs already.")
    width = x.num_features if isinstance(x, FeatureMoments) else _width(x)
    s = checked_vector(s, width)
    if not isinstance(x, FeatureMoments):
        s = s / s.abs().max()  # K knows no scale of s, floating point does
    if covariance:
        c = checked_covariance(x)
        s = s.to(c.device)
        variance = c.diagonal()
        along_ones, along_s = c.sum(), s @ c @ s
    else:
        moments = x
        if not isinstance(x, FeatureMoments):
            x = checked_features(x)
            device = x.device if isinstance(x, Tensor) else None
            moments = FeatureMoments(width, diagonal=True, directions=s, device=device)
            moments.update(x, weight)
        variance = moments.variance(center=center)
        s = s.to(variance.device)
        along_ones = moments.variance_along(torch.ones_like(s), center=center)
        along_s = moments.variance_along(s, center=center)
    before = total_spread(variance, along_ones)
    after = float((variance * s.square()).sum() - along_s / width)
    return after / (before * float(s.square().mean()))


def standardizing_k(x: Any, *, covariance: bool = False) -> float:
    r"""K of :math:`s_i = 1 / \sigma_i`, which gives all dimensions the same variance.

    About the harmonic over the arithmetic mean of the variances: what standardising the
    features would do to the spread, with nothing learnt.

    Args:
        x: See :func:`stability_k`. Of moments, those with covariances.
        covariance (bool, optional): ``x`` is a covariance. (default: :obj:`False`)
    """
    variance = checked_covariance(x).diagonal() if covariance else feature_variance(x)
    constant = int((variance <= 0).sum())
    if constant:
        raise UndefinedStability(
            f"1/std is undefined: {constant} of {len(variance)} dimensions are constant. "
            f"Leave them out."
        )
    return stability_k(x, variance.rsqrt(), covariance=covariance)


def checked_vector(s: Any, width: int) -> Tensor:
    """``s`` in float64, refused unless it is finite, not zero, and has one entry a dimension."""
    s = real_tensor(s, "entries of s")
    if s.dim() != 1 or s.numel() != width:
        raise InputError(f"stability_k expects s of shape [{width}]; found {list(s.shape)}.")
    bad = (~torch.isfinite(s)).nonzero()
    if len(bad):
        place = int(bad[0])
        raise NonFiniteError(f"Expected a finite s; found {float(s[place])} at entry {place}.")
    if not bool((s != 0).any()):
        raise UndefinedStability("K is undefined: s is zero in every dimension.")
    return s


def total_spread(variance: Tensor, along_ones: Tensor) -> float:
    r"""The denominator :math:`\langle \mathbf{C}, \mathbf{G} \rangle`, or why there is none."""
    d, total = variance.numel(), float(variance.sum())
    if d == 1:
        raise UndefinedStability("K is undefined: there is one feature dimension (d = 1).")
    if not total > 0:
        raise UndefinedStability("K is undefined: the total variance is zero.")
    before = total - float(along_ones) / d
    if before <= ROUNDING * total:
        raise UndefinedStability(
            "K is undefined: all feature dimensions are equal up to constants (<C, G> = 0)."
        )
    return before


def _width(x: Any) -> int:
    return int(checked_features(x).shape[1])
