"""DOS operators on symmetric matrices (Appendices G and H), and the four spaces of Theorem 3."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import CovarianceError, InputError, ZeroVarianceError
from drgcn.theory.conditions import at_least, symmetric, weights


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
    """Largest modulus of an eigenvalue: the final growth rate of small deviations."""
    return float(torch.linalg.eigvals(operator_matrix(operator, d)).abs().max())


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
        """Multiplicities of the eigenvalues u and w (Appendix H, Theorem 4), for w != u."""
        if self.w == self.u:
            raise InputError(f"u and w are one eigenvalue here: both are {self.u}.")
        return d, d * (d - 1) // 2

    @property
    def diagonalisable(self) -> bool:
        """True if eigenmatrices span the space; the case w = u, v != 0 is defective."""
        return self.w != self.u or self.v == 0

    def nilpotent_rank(self, d: int) -> int:
        """Rank of T - u for w = u, whose square is zero; Appendix H leaves this case out."""
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
        about one image; see :meth:`least_spectral_radius`.
        """
        s = weights(s, s.numel())
        square = s.square().sort(descending=True).values
        pair = float((square[0] * square[1]).sqrt()) if square.numel() > 1 else 0.0
        return max(abs(self.u) * float(square[0]), abs(self.w) * pair)

    def least_spectral_radius(self, d: int) -> float:
        r"""Least :meth:`spectral_radius` over all s with :math:`\sum_i s_i^2 = d`.

        That of S = I if :math:`|w| \leq (d - 1) |u|`, as for ReLU. Otherwise one large
        :math:`s_i` and equal small ones do better: :math:`d |u| w^2 / ((d - 1) u^2 + w^2)`.
        """
        at_least(d, 2, "A choice of s")
        u, w = abs(self.u), abs(self.w)
        if w <= (d - 1) * u:
            return max(u, w)
        return d * u * w**2 / ((d - 1) * u**2 + w**2)

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


@dataclass(frozen=True)
class Parts:
    r"""A symmetric matrix as the sum of its parts in the spaces of Theorem 3 (Eq. 17).

    Args:
        zero (Tensor): In :math:`V_0 = \{\mathbf{C} : G\mathbf{C}G = 0\}`.
        g (Tensor): In :math:`V_G = \mathbb{R} G`.
        l (Tensor): In :math:`V_L = \{GDG : D` diagonal of trace zero\}.
        m (Tensor): In :math:`V_M = \{\mathbf{C} : \mathbf{C1} = 0, \mathrm{diag} = 0\}`.
    """

    zero: Tensor
    g: Tensor
    l: Tensor  # noqa: E741 - the paper's letter
    m: Tensor

    def norms(self) -> dict[str, float]:
        """Frobenius norm of each part, by the paper's letter."""
        parts = {"0": self.zero, "G": self.g, "L": self.l, "M": self.m}
        return {name: float(torch.linalg.matrix_norm(part)) for name, part in parts.items()}


def decompose(c: Tensor) -> Parts:
    r"""The orthogonal decomposition of Eq. 17, exactly, for any symmetric ``c`` and d > 1.

    With :math:`\mathbf{C}_G = G\mathbf{C}G`: :math:`P_0 = \mathbf{C} - \mathbf{C}_G`,
    :math:`P_G = \frac{\mathrm{tr}\,\mathbf{C}_G}{d - 1} G`, :math:`P_L = G\,
    \mathrm{diag}(\delta)\,G` with :func:`diagonal_weights` :math:`\delta`, and the rest.
    """
    c = symmetric(c)
    d = at_least(c.size(0), 2, "The decomposition of Theorem 3")
    g = centring(d)
    inner = _mirrored(g @ c @ g)
    along = inner.trace() / (d - 1) * g
    light = _mirrored(g @ torch.diag(diagonal_weights(c)) @ g)
    return Parts(c - inner, along, light, inner - along - light)


def _mirrored(c: Tensor) -> Tensor:
    """Symmetric to the last bit, so that parts can be decomposed again."""
    return (c + c.T) / 2


def diagonal_weights(c: Tensor) -> Tensor:
    r"""The :math:`\delta` of the part in :math:`V_L`: sums to zero; zero for d = 2."""
    d = c.size(0)
    if d == 2:
        return torch.zeros(2, dtype=torch.float64)
    g = centring(d)
    variance = (g @ c @ g).diagonal()
    return d / (d - 2) * (variance - variance.mean())


def dimensions(d: int) -> dict[str, int]:
    """Dimensions of the spaces of Theorem 3; the printed ones hold for d >= 3."""
    at_least(d, 2, "The decomposition of Theorem 3")
    return {"0": d, "G": 1, "L": d - 1 if d > 2 else 0, "M": max(d * (d - 3) // 2, 0)}


def g_component(c: Tensor) -> float:
    r""":math:`\langle \mathbf{C}, G \rangle` of Eq. 18 and 19.

    Times :math:`1 / \sqrt{d - 1}` it is the Frobenius norm of the part in :math:`V_G`.
    """
    c = symmetric(c)
    return float(c.trace() - c.sum() / c.size(0))


def relative_g_component(c: Tensor, s: Tensor) -> float:
    r"""K of Eq. 20 from a covariance matrix: :math:`P_G(\mathbf{SCS}) = K P_G(\mathbf{C})`.

    The equality holds for :math:`\frac{1}{d} \sum_i s_i^2 = 1`; K divides by that mean.
    """
    c = symmetric(c)
    s = weights(s, c.size(0))
    before = g_component(c)
    if abs(before) <= 1e-12 * float(c.abs().sum()):
        raise ZeroVarianceError(
            f"K divides by <C, G>; found {before:.3g}: all dimensions are equal up to constants."
        )
    return g_component(s[:, None] * c * s) / (before * float(s.square().mean()))
