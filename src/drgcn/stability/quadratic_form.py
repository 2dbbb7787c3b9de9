"""K as a quotient of quadratic forms: what minimising it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from drgcn.stability.covariance_checks import checked_covariance
from drgcn.stability.measure import total_spread
from drgcn.stability.moments import FeatureMoments
from drgcn.stability.rows import checked_features

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


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
        """The form of features, moments or, with ``covariance``, a covariance."""
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
        """Whether no two dimensions are negatively correlated: minima are then easy to find."""
        rounding = 1e-14 * float(np.abs(self.matrix).max())
        off_diagonal = self.matrix - np.diag(np.diag(self.matrix))
        return bool(off_diagonal.max(initial=0.0) <= rounding)

    @property
    def of_diagonal_covariance(self) -> bool:
        """Whether all dimensions are uncorrelated."""
        return int(np.count_nonzero(self.matrix)) <= int(np.count_nonzero(np.diag(self.matrix)))

    def value(self, s: Vector) -> float:
        """K of a vector."""
        return float(s @ (self.matrix @ s) / (s @ s))

    def value_and_gradient(self, s: Vector) -> tuple[float, Vector]:
        r"""K and :math:`\nabla_s K = 2 (\mathbf{M}\mathbf{s} - K \mathbf{s}) / s^\top s`."""
        image, square = self.matrix @ s, float(s @ s)
        value = float(s @ image) / square
        return value, 2 / square * (image - value * s)
