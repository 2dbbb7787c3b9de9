"""Whether a matrix can be a covariance."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn.errors import CovarianceError, NonFiniteError
from drgcn.stability.number_checks import real_numbers

_LEAST_TOLERANCE = 1e-10


def checked_covariance(c: Any) -> Tensor:
    """The matrix in float64, exactly symmetric; refused unless it is a covariance.

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
        return  # no variance at all: a covariance, whatever may be undefined for it
    shifted = c.clone()
    shifted.diagonal().add_(tolerance)
    # Far cheaper than eigenvalues, which are only needed to say what is wrong.
    if int(torch.linalg.cholesky_ex(shifted).info) != 0:
        least = float(torch.linalg.eigvalsh(c)[0])
        if least < -tolerance:
            raise CovarianceError(
                f"Expected a positive semi-definite covariance; found the eigenvalue {least:g}."
            )
