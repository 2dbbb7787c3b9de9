"""The least K of vectors whose entries differ by a bounded factor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import optimize

from drgcn.errors import InputError
from drgcn.stability.attainable import Minimum, as_form, minimum
from drgcn.stability.quadratic_form import QuadraticForm, Vector

# Where dimensions may be correlated negatively there are several valleys: few dimensions allow
# to look into many.
_RANDOM_STARTS, _RANDOM_UP_TO, _SECOND_UP_TO = 16, 64, 1024


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
    """The best vector of two values, for two orders of the dimensions."""
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
