"""Checks of inputs: symmetric, positive semidefinite, positive variances, dimension."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.errors import (
    CovarianceError,
    DimensionError,
    InputError,
    NonFiniteError,
    ZeroVarianceError,
)

# Relative to the largest entry: what rounding may do to a symmetric or semidefinite matrix.
_ROUNDING = 1e-10


def symmetric(c: Tensor, name: str = "C") -> Tensor:
    """Return ``c`` in float64, or raise unless it is a finite symmetric matrix (H_d)."""
    c = torch.as_tensor(c).detach().to(torch.float64)
    if c.dim() != 2 or c.size(0) != c.size(1) or c.size(0) == 0:
        raise CovarianceError(f"{name} must be a square matrix; found the shape {list(c.shape)}.")
    if not bool(torch.isfinite(c).all()):
        row, col = (~torch.isfinite(c)).nonzero()[0].tolist()
        raise NonFiniteError(
            f"{name} must be finite; found {float(c[row, col])} at row {row}, column {col}."
        )
    gap = float((c - c.T).abs().max())
    if gap > _ROUNDING * float(c.abs().max()):
        raise CovarianceError(
            f"{name} must be symmetric; found entries that differ from their mirror by {gap:.3g}."
        )
    return (c + c.T) / 2


def covariance(c: Tensor, name: str = "C") -> Tensor:
    """Return ``c`` in float64, or raise unless it is symmetric and positive semidefinite."""
    c = symmetric(c, name)
    least = float(torch.linalg.eigvalsh(c)[0])
    if least < -_ROUNDING * float(c.abs().max()):
        raise CovarianceError(
            f"{name} must be positive semidefinite; found the eigenvalue {least:.6g}."
        )
    return c


def positive_variances(c: Tensor, why: str) -> Tensor:
    """Return ``c``, or raise unless its diagonal is positive; ``why`` names what divides by it."""
    variance = c.diagonal()
    if bool((variance <= 0).any()):
        where = int((variance <= 0).nonzero()[0])
        raise ZeroVarianceError(
            f"{why} divides by every variance; found {float(variance[where]):.3g} "
            f"at coordinate {where}."
        )
    return c


def at_least(d: int, least: int, why: str) -> int:
    """Return ``d``, or raise if it is below ``least``; ``why`` names what needs it."""
    if d < least:
        raise DimensionError(f"{why} needs d >= {least}; found d = {d}.")
    return d


def weights(s: Tensor | None, d: int) -> Tensor:
    """Return the diagonal of S in float64, ``d`` finite entries not all zero; ones for None."""
    if s is None:
        return torch.ones(d, dtype=torch.float64)
    s = torch.as_tensor(s).detach().to(torch.float64)
    if s.shape != (d,):
        raise InputError(f"s must have the shape [{d}]; found {list(s.shape)}.")
    if not bool(torch.isfinite(s).all()):
        where = int((~torch.isfinite(s)).nonzero()[0])
        raise NonFiniteError(f"s must be finite; found {float(s[where])} at row {where}.")
    if not bool(s.any()):
        raise InputError("s must not be zero everywhere.")
    return s


def correlation(c: float) -> float:
    """Return ``c``, or raise unless it is a correlation."""
    if not -1.0 <= c <= 1.0:
        raise InputError(f"A correlation lies between -1 and 1; found {c}.")
    return float(c)


def variance(q: float) -> float:
    """Return ``q``, or raise unless it is finite and positive."""
    if not 0.0 < q < float("inf"):
        raise ZeroVarianceError(f"The variance q must be positive and finite; found {q}.")
    return float(q)
