"""The stability measure K of a reweighting vector, and statistics of features that go with it."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn.errors import CovarianceError, InputError, NonFiniteError, UndefinedStability
from drgcn.stability.moments import FeatureMoments
from drgcn.stability.rows import checked_features, real_numbers, real_tensor

# Shares of the total variance below this are rounding.
_ROUNDING = 1e-12
# Least total variance whose parts float64 holds with all of their digits.
_LEAST_VARIANCE = torch.finfo(torch.float64).tiny / torch.finfo(torch.float64).eps
# Asymmetry of a covariance that is forgiven in any data type, relative to its largest variance.
_LEAST_TOLERANCE = 1e-10
# Distance from 0 and 1 within which an entry of a gate counts as saturated.
_MARGIN = 1e-3
# From here on a few columns drown the others.
LOUD = 100.0
STANDARDISE = "Standardise them (--normalize standard; in Python normalize='standard')"


def stability_k(
    x: Any,
    s: Any,
    *,
    center: bool = True,
    weight: Any = None,
    covariance: bool = False,
) -> float:
    r"""Return the measure :math:`K` of the paper for a layer with input ``x`` and vector ``s``.

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
    width = x.num_features if isinstance(x, FeatureMoments) else checked_features(x).shape[1]
    s = checked_vector(s, width)
    if not isinstance(x, FeatureMoments):
        s = s / s.abs().max()  # K does not depend on the scale of s, rounding does
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


def checked_vector(s: Any, width: int) -> Tensor:
    """Return ``s`` in float64; refuse it unless finite, not zero, with one entry a dimension."""
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
    r"""Return the denominator :math:`\langle \mathbf{C}, \mathbf{G} \rangle`; refuse zero."""
    d, total = variance.numel(), float(variance.sum())
    if d == 1:
        raise UndefinedStability("K is undefined: there is one feature dimension (d = 1).")
    if not total > 0:
        raise UndefinedStability("K is undefined: the total variance is zero.")
    if total < _LEAST_VARIANCE:
        raise UndefinedStability(
            f"K is undefined: float64 holds a total variance of {total:.1g} with few of its "
            f"digits. Multiply the features by a large number, which leaves K as it is."
        )
    before = total - float(along_ones) / d
    if before <= _ROUNDING * total:
        raise UndefinedStability(
            "K is undefined: all feature dimensions are equal up to constants (<C, G> = 0)."
        )
    return before


def standardizing_k(x: Any, *, covariance: bool = False) -> float:
    r"""Return K of :math:`s_i = 1 / \sigma_i`, which gives all dimensions the same variance.

    About the harmonic over the arithmetic mean of the variances: the effect of standardising the
    features on the spread, with nothing learnt.

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


def discriminative_k(
    x: Any, y: Tensor, mask: Tensor | None = None, *, propagated: Any = None
) -> float:
    r"""Return K of :math:`s_i = \sqrt{\eta_i^2}`, the root of :func:`class_share`.

    Below one, the dimensions that tell classes apart have the smaller variances, and reweighting
    towards them evens out the spread; above one, they have the larger ones already. A companion
    of :func:`minimal_k_in_range`, which does not use labels. Neither promises a gain.

    Args:
        x (Tensor): Features ``[n, d]``, whose spread K measures.
        y (Tensor): Class of each row.
        mask (Tensor, optional): The training rows. (default: all)
        propagated (Tensor, optional): Features after one step over the graph,
            :math:`\mathbf{A}\mathbf{X}`, to take the shares of. (default: ``x``)
    """
    return stability_k(x, class_share(x if propagated is None else propagated, y, mask).sqrt())


def class_share(x: Any, y: Tensor, mask: Tensor | None = None) -> Tensor:
    r"""Return the share of each dimension's variance that lies between classes, ``[d]``:

    .. math::
        \eta_i^2 = \frac{\sum_c n_c (m_{ci} - m_i)^2}{\sum_v (x_{vi} - m_i)^2}.

    Zero for a constant dimension.

    Args:
        x (Tensor): Features ``[n, d]``, dense or sparse.
        y (Tensor): Class of each row, ``[n]``; rows below 0 have none and are left out.
        mask (Tensor, optional): The rows to use: the training nodes, so that no other labels
            are used. (default: all)

    Raises:
        UndefinedStability: If there are not two classes, or none with two rows.
    """
    x = checked_features(x)
    y = torch.as_tensor(y)
    if y.shape != (x.shape[0],) or y.is_floating_point() or y.is_complex():
        raise InputError(
            f"Expected one class number per row, [{x.shape[0]}]; found {y.dtype} of shape "
            f"{list(y.shape)}."
        )
    known = y >= 0
    if mask is not None:
        mask = torch.as_tensor(mask, device=y.device)
        if mask.shape != y.shape or not bool(((mask == 0) | (mask == 1)).all()):
            raise InputError(
                f"Expected a boolean mask [{len(y)}]; found {mask.dtype} of shape "
                f"{list(mask.shape)}. Of several splits take one column; make a mask of row "
                f"numbers by torch_geometric.utils.index_to_mask."
            )
        known &= mask.bool()
    classes, sizes = y[known].unique(return_counts=True)
    if len(classes) < 2:
        raise UndefinedStability(
            f"The share between classes is undefined: {len(classes)} classes among the rows."
        )
    if int(sizes.max()) < 2:  # all of the variance is between classes, whatever the features
        raise UndefinedStability(
            "The share between classes is undefined: no class has two of the rows."
        )
    device = x.device if isinstance(x, Tensor) else None
    whole = FeatureMoments(x.shape[1], diagonal=True, device=device)
    within = torch.zeros(x.shape[1], dtype=torch.float64, device=device)
    for label in classes:
        part = FeatureMoments(x.shape[1], diagonal=True, device=device)
        part.update(x, (y == label) & known)
        within += part.variance() * part.weight
        whole.merge(part)
    total = whole.variance() * whole.weight
    share = 1 - within / torch.where(total > 0, total, 1.0)
    return torch.where(total > 0, share.clamp(0, 1), 0.0)


def feature_variance(x: Any) -> Tensor:
    """Return the variance of each feature dimension, in float64; exactly 0 for constants.

    Args:
        x (Tensor, numpy.ndarray or FeatureMoments): Node features ``[n, d]``, dense or sparse,
            or their moments.
    """
    if isinstance(x, FeatureMoments):
        return x.variance()
    x = checked_features(x)
    device = x.device if isinstance(x, Tensor) else None
    if x.shape[0] == 0:
        return torch.zeros(x.shape[1], dtype=torch.float64, device=device)
    return FeatureMoments(x.shape[1], diagonal=True, device=device).update(x).variance()


def variance_spread(x: Any) -> float:
    """Return the coefficient of variation of the per-dimension variances: 0 if all are equal.

    The imbalance that reweighting can act on; it says nothing about whether acting helps.

    Args:
        x (Tensor, numpy.ndarray or FeatureMoments): Node features ``[n, d]``, dense or sparse,
            or their moments.
    """
    variance = feature_variance(x)
    mean = variance.mean()
    if not float(mean) > 0:
        raise UndefinedStability(
            "The spread of variances is undefined: every feature is constant."
        )
    return float(variance.std(correction=0) / mean)


def loudest(variance: Tensor) -> float:
    """Return the largest variance over the median of the others, without those that are zero."""
    kept = variance[variance > 0].sort().values
    return float(kept[-1] / kept[:-1].quantile(0.5)) if len(kept) > 1 else 1.0


def warning_of_scales(times: float) -> str | None:
    """Return a sentence if a feature is so many times as loud that it drowns the others."""
    if times <= LOUD:
        return None
    return (
        f"features have wildly different scales: the largest variance is {times:,.0f} times the "
        f"median of the others. {STANDARDISE}."
    )


def gate_saturation(s: Tensor, margin: float = _MARGIN) -> float:
    r"""Return the share of entries of a sigmoid gate below ``margin`` or above ``1 - margin``.

    There the sigmoid has a slope below ``margin``, a 250th of its greatest for the default: such
    an entry hardly learns any more, and its dimension is switched off or passed on unchanged.

    Args:
        s (Tensor): Gate vector, of any shape.
        margin (float, optional): Distance from 0 and 1. (default: :obj:`1e-3`)

    Example:
        >>> gate_saturation(torch.tensor([0.0005, 0.5, 0.9995, 0.9]))
        0.5
    """
    if not 0 < margin < 0.5:
        raise InputError(f"Expected a margin between 0 and 0.5; found {margin}.")
    if s.numel() == 0:
        raise InputError("Expected a gate with entries; found an empty one.")
    s = s.detach().double()
    return float(((s < margin) | (s > 1 - margin)).double().mean())


def graph_stability(x: Tensor, s: Tensor, graph: Tensor | None = None) -> float | None:
    """Return K of features ``x`` for a vector ``s``, ``[d]`` or one a graph ``[graphs, d]``.

    With several graphs this is the mean over those where K is defined; it is ``None`` where there
    is no such graph, as for a layer whose inputs are all zero or not finite.
    """
    if s.dim() == 1:
        pairs = [(x, s)]
    else:
        assert graph is not None
        dense = x if x.layout == torch.strided else x.to_dense()
        pairs = [(dense[graph == number], s[number]) for number in range(len(s))]
    values = []
    for features, vector in pairs:
        with contextlib.suppress(UndefinedStability, NonFiniteError):
            values.append(stability_k(features, vector))
    return sum(values) / len(values) if values else None


def checked_covariance(c: Any) -> Tensor:
    """Return the matrix in float64, exactly symmetric; refuse it unless it is a covariance.

    Asymmetry and negative eigenvalues are forgiven up to the rounding of the data type it
    came in, relative to its largest variance.
    """
    c = real_numbers(c, "covariances")
    c = c.detach() if isinstance(c, Tensor) else torch.from_numpy(np.array(c))
    c = c if c.layout == torch.strided else c.to_dense()
    given = c.dtype if c.is_floating_point() else torch.float64
    if c.dim() != 2 or c.size(0) != c.size(1) or c.size(0) < 1:
        raise CovarianceError(f"Expected a covariance [d, d]; found shape {list(c.shape)}.")
    c = c.double()
    bad = (~torch.isfinite(c)).nonzero()
    if len(bad):
        row, column = (int(place) for place in bad[0])
        raise NonFiniteError(
            f"Expected a finite covariance; found {float(c[row, column])} at row {row}, column "
            f"{column} (both from 0)."
        )
    d, scale = c.size(0), float(c.diagonal().abs().max())
    tolerance = scale * max(_LEAST_TOLERANCE, 8 * torch.finfo(given).eps * d)
    gap = (c - c.T).abs()
    if float(gap.max()) > tolerance:
        row, column = divmod(int(gap.argmax()), d)
        raise CovarianceError(
            f"Expected a symmetric covariance; found {float(c[row, column]):g} at ({row}, "
            f"{column}) and {float(c[column, row]):g} at ({column}, {row})."
        )
    c = (c + c.T) / 2
    _expect_no_negative_eigenvalue(c, tolerance)
    return c


def _expect_no_negative_eigenvalue(c: Tensor, tolerance: float) -> None:
    if tolerance == 0 and not bool(c.any()):
        return  # no variance at all is a covariance, though K is undefined for it
    shifted = c.clone()
    shifted.diagonal().add_(tolerance)
    # Far cheaper than eigenvalues, which only the message needs.
    if int(torch.linalg.cholesky_ex(shifted).info) != 0:
        least = float(torch.linalg.eigvalsh(c)[0])
        if least < -tolerance:
            raise CovarianceError(
                f"Expected a positive semi-definite covariance; found the eigenvalue {least:g}."
            )
