"""The space H_d of symmetric matrices: its symmetric points, and operators on it as matrices."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from drgcn.errors import CovarianceError
from drgcn.theory.conditions import at_least


def centring(d: int) -> Tensor:
    r""":math:`G = \mathbf{I} - \frac{1}{d} \mathbf{1}\mathbf{1}^\top` of Section 3.2."""
    at_least(d, 1, "The matrix G")
    return torch.eye(d, dtype=torch.float64) - 1 / d


def bsb1(d: int, q: float, c: float) -> Tensor:
    r""":math:`q((1 - c)\mathbf{I} + c \mathbf{1}\mathbf{1}^\top)` of Section 3.1.

    Semidefinite, and accepted, for :math:`q \geq 0` and :math:`-1/(d-1) \leq c \leq 1`.
    """
    at_least(d, 1, "A BSB1 matrix")
    least = -1 / (d - 1) if d > 1 else -math.inf
    # One rounding of slack: -1 / (d - 1) is a correlation that callers compute themselves.
    if not q >= 0 or not least - 1e-14 <= c <= 1:
        raise CovarianceError(
            f"A BSB1 matrix needs q >= 0 and {least:.6g} <= c <= 1 at d = {d}; "
            f"found q = {q} and c = {c}."
        )
    return q * ((1 - c) * torch.eye(d, dtype=torch.float64) + c)


def symmetric_basis(d: int) -> Tensor:
    """An orthonormal basis ``[d (d + 1) / 2, d, d]`` of the symmetric matrices."""
    row, col = torch.triu_indices(d, d).unbind()
    index = torch.arange(row.numel())
    basis = torch.zeros(row.numel(), d, d, dtype=torch.float64)
    entry = torch.full((row.numel(),), math.sqrt(0.5), dtype=torch.float64)
    entry[row == col] = 1.0
    basis[index, row, col] = entry
    basis[index, col, row] = entry
    return basis


def operator_matrix(operator: Callable[[Tensor], Tensor], d: int) -> Tensor:
    """A linear operator on symmetric matrices in the basis of :func:`symmetric_basis`."""
    basis = symmetric_basis(d)
    images = torch.stack([operator(matrix) for matrix in basis])
    return torch.einsum("aij,bij->ab", basis, images)


def spectral_radius(operator: Callable[[Tensor], Tensor], d: int) -> float:
    """Largest modulus of an eigenvalue: the rate at which small deviations change in the end."""
    return float(torch.linalg.eigvals(operator_matrix(operator, d)).abs().max())
