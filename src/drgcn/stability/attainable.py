"""The least K that any vector attains: a lower bound of what reweighting can do, no promise."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import torch
from scipy import linalg, optimize
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor

from drgcn.errors import InputError
from drgcn.stability.quadratic_form import Matrix, QuadraticForm, Vector

# Up to here LAPACK takes less than a second, and does not depend on gaps in the spectrum.
_DENSE_UP_TO = 1024
# 2 ** 14 small eigenproblems take about a second.
_ENUMERATED_UP_TO = 14


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
        x: Features, :class:`FeatureMoments`, or a :class:`QuadraticForm` at hand; a covariance
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
    """``x`` if it is a form already, else the form of it."""
    if isinstance(x, QuadraticForm):
        return x
    return QuadraticForm.of(x, covariance=covariance, center=center)


def minimum(form: QuadraticForm, s: Vector, *, exact: bool) -> Minimum:
    """The result for a vector, scaled to mean square one."""
    s = s / np.sqrt(np.mean(np.square(s)))
    # The form has no negative eigenvalue: less than zero is rounding.
    return Minimum(max(form.value(s), 0.0), torch.from_numpy(s.copy()), exact)


def least_eigenvector(matrix: Matrix) -> Vector:
    """The eigenvector of the least eigenvalue of a positive semi-definite matrix."""
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
            pass  # the slow way always works
    _, vectors = linalg.eigh(matrix, subset_by_index=[0, 0])
    return np.ascontiguousarray(vectors[:, 0])


def _best_support(matrix: Matrix) -> Vector:
    """The minimiser over s >= 0: positive on its support, and the least eigenvector there."""
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
