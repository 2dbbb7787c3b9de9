"""The least K over all vectors, over non-negative ones, and over those in a bounded range."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from scipy import linalg, optimize
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor

from drgcn.errors import InputError
from drgcn.stability.measure import checked_covariance, total_spread
from drgcn.stability.moments import FeatureMoments
from drgcn.stability.rows import checked_features

# Up to here LAPACK takes less than a second, and does not depend on gaps in the spectrum.
_DENSE_UP_TO = 1024
# 2 ** 14 small eigenproblems take about a second.
_ENUMERATED_UP_TO = 14
# Negative correlations make several local minima; with few dimensions many starts are affordable.
_RANDOM_STARTS, _RANDOM_UP_TO, _SECOND_UP_TO = 16, 64, 1024

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Minimum:
    """A least value of K.

    Attributes:
        value: K.
        s: A vector that attains it, of mean square one.
        exact: Whether it is the minimum; else the best that was found.
    """

    value: float
    s: Tensor
    exact: bool


def minimal_k(
    x: Any,
    over: Literal["all", "nonnegative"] = "all",
    *,
    covariance: bool = False,
    center: bool = True,
) -> Minimum:
    r"""The least :math:`K` over all vectors, or over those without negative entries.

    Over all :math:`\mathbf{s}` it is an eigenvalue,

    .. math::
        K^* = \frac{d \, \lambda_{\min}(\mathbf{C} \circ \mathbf{G})}
        {\langle \mathbf{C}, \mathbf{G} \rangle}.

    Over :math:`\mathbf{s} \ge 0`, where gates live, it is the same if no covariance is negative
    (Perron). Otherwise the problem is not convex: up to 14 dimensions all supports are tried,
    beyond that the best of some descents is returned, with ``exact=False``.

    The minimiser keeps a few quiet dimensions and drops the rest; :math:`K^*` is far below one
    on all real data. See :func:`minimal_k_in_range` for what a gate of bounded range can do.

    Args:
        x: Features, :class:`FeatureMoments`, or a :class:`QuadraticForm`; a covariance
            with ``covariance``. A constant dimension makes the minimum 0.
        over (str, optional): :obj:`"all"` or :obj:`"nonnegative"`. (default: :obj:`"all"`)
        covariance (bool, optional): ``x`` is a covariance. (default: :obj:`False`)
        center (bool, optional): See :func:`stability_k`. (default: :obj:`True`)

    Example:
        >>> minimum = minimal_k(torch.diag(torch.tensor([1.0, 4.0, 4.0])), covariance=True)
        >>> round(minimum.value, 6), minimum.exact
        (0.333333, True)
    """
    if over not in ("all", "nonnegative"):
        raise InputError(f"Expected over='all' or 'nonnegative'; found {over!r}.")
    form = as_form(x, covariance=covariance, center=center)
    s = least_eigenvector(form.matrix)
    signed = s if s.sum() >= 0 else -s
    if over == "all":
        return minimum(form, signed, exact=True)
    # The size of entries that rounding leaves of zeros.
    one_sign = bool((signed >= -1e-9 * np.abs(s).max()).all())
    if form.of_nonnegative_covariance or one_sign:
        return minimum(form, np.abs(s), exact=True)
    if form.dimensions <= _ENUMERATED_UP_TO:
        return minimum(form, _best_support(form.matrix), exact=True)
    return minimum(form, _best_descent(form, np.abs(s)), exact=False)


def as_form(x: Any, *, covariance: bool, center: bool) -> QuadraticForm:
    """Return ``x`` if it is a form already, else its form."""
    if isinstance(x, QuadraticForm):
        return x
    return QuadraticForm.of(x, covariance=covariance, center=center)


def minimum(form: QuadraticForm, s: Vector, *, exact: bool) -> Minimum:
    """Return the result for a vector, scaled to mean square one."""
    s = s / np.sqrt(np.mean(np.square(s)))
    # The form has no negative eigenvalue: less than zero is rounding.
    return Minimum(max(form.value(s), 0.0), torch.from_numpy(s.copy()), exact)


def least_eigenvector(matrix: Matrix) -> Vector:
    """Return the eigenvector of the least eigenvalue of a positive semi-definite matrix."""
    d = len(matrix)
    if d > _DENSE_UP_TO:
        # Lanczos on the inverse: a fraction of the time of a full decomposition.
        shift = 1e-9 * float(np.trace(matrix)) / d
        shifted = matrix + shift * np.eye(d)
        try:
            factor = linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
            inverse = LinearOperator(
                (d, d), lambda v: linalg.cho_solve(factor, v, check_finite=False), dtype=float
            )
            start = np.random.default_rng(0).standard_normal(d)
            _, vectors = eigsh(matrix, 1, sigma=-shift, OPinv=inverse, v0=start, tol=1e-11)
            return np.ascontiguousarray(vectors[:, 0])
        except (linalg.LinAlgError, ArpackError):
            pass  # the full decomposition below always works
    _, vectors = linalg.eigh(matrix, subset_by_index=[0, 0])
    return np.ascontiguousarray(vectors[:, 0])


def _best_support(matrix: Matrix) -> Vector:
    """Return the minimiser over s >= 0: on its support, a positive least eigenvector."""
    d = len(matrix)
    best, found = np.inf, np.zeros(d)
    for size in range(1, d + 1):
        supports = np.array(list(combinations(range(d), size)))
        parts = matrix[supports[:, :, None], supports[:, None, :]]
        values, vectors = np.linalg.eigh(parts)
        least = vectors[:, :, 0] * np.sign(vectors[:, :, 0].sum(1, keepdims=True))
        usable = np.where((least > 0).all(1), values[:, 0], np.inf)
        place = int(usable.argmin())
        if usable[place] < best:
            best, found = usable[place], np.zeros(d)
            found[supports[place]] = least[place]
    return found


def _best_descent(form: QuadraticForm, start: Vector) -> Vector:
    diagonal = np.maximum(np.diag(form.matrix), 1e-12 * np.diag(form.matrix).max())
    quietest = np.full(form.dimensions, 1e-3)
    quietest[int(diagonal.argmin())] = 1
    starts = [start, 1 / diagonal, 1 / np.sqrt(diagonal), quietest]
    candidates = []
    for first in starts[:2] if form.dimensions > _DENSE_UP_TO else starts:
        done = optimize.minimize(
            form.value_and_gradient,
            first / np.abs(first).max(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * form.dimensions,
            options={"maxiter": 100, "ftol": 1e-13, "gtol": 1e-10},
        )
        candidates.append(done)
    return np.asarray(min(candidates, key=lambda done: done.fun).x)


def minimal_k_in_range(
    x: Any, ratio: float, *, covariance: bool = False, center: bool = True
) -> Minimum:
    r"""The least :math:`K` over :math:`1 \le s_i \le r`.

    Uncorrelated dimensions obey a threshold rule: :math:`s_i = r` for the dimensions of least
    variance, 1 for the others. That is the start here, with the threshold of the least K under
    the covariances as they are; then L-BFGS-B in :math:`t = s^2`. In t the numerator is convex
    if no covariance is negative, so that a local minimum is the minimum and ``exact`` is true
    (to the tolerance of the descent).

    Args:
        x: See :func:`minimal_k`.
        ratio (float): The factor :math:`r > 1` between the largest and the smallest entry.
        covariance (bool, optional): ``x`` is a covariance. (default: :obj:`False`)
        center (bool, optional): See :func:`stability_k`. (default: :obj:`True`)
    """
    if not 1 < ratio < float("inf"):
        raise InputError(f"Expected a finite ratio > 1; found {ratio}.")
    form = as_form(x, covariance=covariance, center=center)
    rule = min(_thresholds(form, ratio), key=form.value)
    if form.of_diagonal_covariance:
        return minimum(form, rule, exact=True)
    convex = form.of_nonnegative_covariance
    starts = [rule] if convex else [rule, *_other_starts(form, ratio)]
    polished = [_polish(form, start, ratio) for start in starts]
    best = min([rule, *polished], key=form.value)
    return minimum(form, best, exact=convex)


def _thresholds(form: QuadraticForm, ratio: float) -> Iterator[Vector]:
    """Yield the best vector of two values, for two orders of the dimensions."""
    m = form.matrix
    row_sums = m.sum(1)
    for order in (np.argsort(form.variance), np.argsort(row_sums)):
        ordered = m[np.ix_(order, order)]
        # 1_A' M 1_A for the first k dimensions, k = 1 ... d, without a loop over k.
        inside = np.cumsum(2 * np.tril(ordered, -1).sum(1) + np.diag(ordered))
        crossing = np.cumsum(row_sums[order])
        k = np.arange(1, len(order) + 1)
        numerator = m.sum() + 2 * (ratio - 1) * crossing + (ratio - 1) ** 2 * inside
        best = int((numerator / (len(order) + (ratio**2 - 1) * k)).argmin())
        s = np.ones(len(order))
        s[order[: best + 1]] = ratio
        yield s


def _other_starts(form: QuadraticForm, ratio: float) -> Iterator[Vector]:
    if form.dimensions <= _SECOND_UP_TO:
        diagonal = np.maximum(np.diag(form.matrix), 1e-300)
        yield np.clip(np.sqrt(diagonal.max() / diagonal), 1, ratio)
    if form.dimensions <= _RANDOM_UP_TO:
        draw = np.random.default_rng(0)
        for _ in range(_RANDOM_STARTS):
            yield draw.uniform(1, ratio, form.dimensions)


def _polish(form: QuadraticForm, start: Vector, ratio: float) -> Vector:
    def in_t(t: Vector) -> tuple[float, Vector]:
        s = np.sqrt(t)
        value, gradient = form.value_and_gradient(s)
        return value, gradient / (2 * s)

    done = optimize.minimize(
        in_t,
        np.square(start),
        jac=True,
        method="L-BFGS-B",
        bounds=[(1, ratio**2)] * form.dimensions,
        options={"maxiter": 200, "ftol": 1e-15, "gtol": 1e-12},
    )
    return np.sqrt(np.clip(done.x, 1, ratio**2))


@dataclass(frozen=True)
class QuadraticForm:
    r"""K as a Rayleigh quotient.

    With :math:`\mathbf{G} = \mathbf{I} - \mathbf{1}\mathbf{1}^\top / d` and the entrywise product
    :math:`\mathbf{M} = \mathbf{C} \circ \mathbf{G}`,

    .. math::
        K = \frac{d}{\mathbf{1}^\top \mathbf{M} \mathbf{1}} \cdot
        \frac{\mathbf{s}^\top \mathbf{M} \mathbf{s}}{\mathbf{s}^\top \mathbf{s}}.

    By Schur's product theorem :math:`\mathbf{M}` is positive semi-definite with
    :math:`\mathbf{C}`.

    Attributes:
        matrix: :math:`d \mathbf{M} / \mathbf{1}^\top \mathbf{M} \mathbf{1}`, whose Rayleigh
            quotient is K.
        variance: The variances :math:`c_{ii}`.
    """

    matrix: Matrix
    variance: Vector

    @classmethod
    def of(cls, x: Any, *, covariance: bool = False, center: bool = True) -> QuadraticForm:
        """Return the form of features, moments or, with ``covariance``, a covariance."""
        if covariance:
            c = checked_covariance(x)
        elif isinstance(x, FeatureMoments):
            c = x.covariance(center=center)
        else:
            x = checked_features(x)
            device = x.device if isinstance(x, torch.Tensor) else None
            c = FeatureMoments(x.shape[1], device=device).update(x).covariance(center=center)
        variance = c.diagonal().cpu().numpy().copy()
        before, d = total_spread(c.diagonal(), c.sum()), c.size(0)
        matrix = c.cpu().numpy().copy() * (-1 / before)
        matrix[np.diag_indices(d)] += variance * (d / before)
        return cls(matrix, variance)

    @property
    def dimensions(self) -> int:
        """The number of feature dimensions."""
        return len(self.variance)

    @property
    def of_nonnegative_covariance(self) -> bool:
        """True if no two dimensions are negatively correlated: minima are then easy to find."""
        rounding = 1e-14 * float(np.abs(self.matrix).max())
        off_diagonal = self.matrix - np.diag(np.diag(self.matrix))
        return bool(off_diagonal.max(initial=0.0) <= rounding)

    @property
    def of_diagonal_covariance(self) -> bool:
        """True if all dimensions are uncorrelated."""
        return int(np.count_nonzero(self.matrix)) <= int(np.count_nonzero(np.diag(self.matrix)))

    def value(self, s: Vector) -> float:
        """K of a vector."""
        return float(s @ (self.matrix @ s) / (s @ s))

    def value_and_gradient(self, s: Vector) -> tuple[float, Vector]:
        r"""K and :math:`\nabla_s K = 2 (\mathbf{M}\mathbf{s} - K \mathbf{s}) / s^\top s`."""
        image, square = self.matrix @ s, float(s @ s)
        value = float(s @ image) / square
        return value, 2 / square * (image - value * s)
