"""DOS operators of Appendices G and H: what the derivative of V is at a symmetric point."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.theory.conditions import at_least, symmetric, weights


@dataclass(frozen=True)
class DOS:
    r"""A diagonal-off-diagonal semidirect operator on symmetric matrices (Appendix G).

    .. math::
        T(\mathbf{C})_{ii} = u c_{ii}, \qquad
        T(\mathbf{C})_{ij} = v c_{ii} + v c_{jj} + w c_{ij}.

    The eigenmatrices of Appendix H are correct as printed, and span the space if
    :math:`w \neq u`. They are not orthogonal for :math:`v \neq 0`: the operator norm exceeds
    the spectral radius and grows like :math:`2 |v| \sqrt{d}`.
    """

    u: float
    v: float
    w: float

    def apply(self, c: Tensor) -> Tensor:
        """The image of a symmetric matrix ``[d, d]`` (Appendix G, definition)."""
        c = symmetric(c)
        variance = c.diagonal()
        image = self.v * (variance[:, None] + variance) + self.w * c
        return image.fill_diagonal_(0.0) + torch.diag(self.u * variance)

    def diagonal_eigenmatrix(self, d: int, i: int) -> Tensor:
        """:math:`L_i` of Appendix H, with eigenvalue u; zero for w = u and v = 0."""
        matrix = torch.zeros(d, d, dtype=torch.float64)
        matrix[i] = matrix[:, i] = -self.v
        matrix[i, i] = self.w - self.u
        return matrix

    def multiplicities(self, d: int) -> tuple[int, int]:
        """How often u and w are eigenvalues (Appendix H, Theorem 4), for w different from u."""
        if self.w == self.u:
            raise InputError(f"u and w are one eigenvalue here: both are {self.u}.")
        return d, d * (d - 1) // 2

    @property
    def diagonalisable(self) -> bool:
        """Whether eigenmatrices span the space: the case w = u, v != 0 is defective."""
        return self.w != self.u or self.v == 0

    def nilpotent_rank(self, d: int) -> int:
        """Rank of T - u for w = u, whose square is zero: what Appendix H leaves out."""
        if self.w != self.u:
            raise InputError(f"T - u is nilpotent for w = u only; found {self.w} and {self.u}.")
        return 0 if self.v == 0 or d == 1 else 1 if d == 2 else d

    def coordinates(self, c: Tensor) -> tuple[Tensor, Tensor]:
        """``c`` in the basis of Appendix H: of the L_i, and of the M_ij by rows (i < j)."""
        c = symmetric(c)
        if self.w == self.u:
            raise InputError(f"The L_i and M_ij are no basis for w = u = {self.u}.")
        diagonal = c.diagonal() / (self.w - self.u)
        row, col = torch.triu_indices(c.size(0), c.size(0), offset=1).unbind()
        return diagonal, c[row, col] + self.v * (diagonal[row] + diagonal[col])

    def spectral_radius(self, s: Tensor) -> float:
        r"""Largest modulus of an eigenvalue of :math:`\mathbf{C} \mapsto T(\mathbf{SCS})`.

        The eigenvalues are :math:`u s_i^2` and :math:`w s_i s_j`: with
        :math:`\sum_i s_i^2 = d` the radius is at least :math:`|u|`, whatever Theorem 1 says
        about one image.
        """
        s = weights(s, s.numel())
        square = s.square().sort(descending=True).values
        pair = float((square[0] * square[1]).sqrt()) if square.numel() > 1 else 0.0
        return max(abs(self.u) * float(square[0]), abs(self.w) * pair)

    def operator_norm(self, d: int) -> float:
        """Largest Frobenius norm of an image of a matrix of norm one."""
        at_least(d, 1, "An operator norm")
        if d == 1:
            return abs(self.u)
        # The trace and each traceless direction of the diagonal reach one direction off it.
        reaches = (2 * self.v * math.sqrt(d - 1), self.v * math.sqrt(2 * d - 4))
        blocks = torch.tensor([[[self.u, 0.0], [r, self.w]] for r in reaches], dtype=torch.float64)
        return float(torch.linalg.matrix_norm(blocks, 2).max())


def off_diagonal_eigenmatrix(d: int, i: int, j: int) -> Tensor:
    """:math:`M_{ij}` of Appendix H, an eigenmatrix of every DOS operator with eigenvalue w."""
    if i == j:
        raise InputError(f"M_ij needs two different coordinates; found {i} twice.")
    matrix = torch.zeros(d, d, dtype=torch.float64)
    matrix[i, j] = matrix[j, i] = 1.0
    return matrix
