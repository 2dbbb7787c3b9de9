"""The four spaces of Theorem 3 and the orthogonal projections on them; what K measures."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import ZeroVarianceError
from drgcn.theory.conditions import at_least, symmetric, weights
from drgcn.theory.symmetric_space import centring


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


def _mirrored(c: Tensor) -> Tensor:
    """Symmetric to the last bit, so that parts can be decomposed again."""
    return (c + c.T) / 2
