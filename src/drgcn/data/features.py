"""What may be done to a feature matrix before training, written out by hand."""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.errors import DrgcnWarning, InputError

# Either a dense float32 array or a scipy.sparse.csr_array of float32.
Features = Any

NORMALIZATIONS: Final = ("row", "standard", "none")


def normalized(x: Features, method: str, train: npt.NDArray[np.bool_]) -> Features:
    """Features after one of :data:`NORMALIZATIONS`; the input is left as it is.

    Args:
        x: Features, dense or CSR, nodes in rows.
        method: ``"row"`` divides each row by its sum (rows of sum zero become zero),
            ``"standard"`` gives the training rows mean zero and variance one in every column
            (columns that are constant there become zero), ``"none"`` does nothing.
        train: The training rows.
    """
    if method == "row":
        return _by_row_sum(x)
    if method == "standard":
        return _by_training_statistics(x, train)
    if method == "none":
        return x
    raise InputError(f"normalize must be one of {', '.join(NORMALIZATIONS)}, not {method!r}")


def _by_row_sum(x: Features) -> Features:
    # PyG's NormalizeFeatures first subtracts the global minimum and clamps the sum at one,
    # which is another operation as soon as a feature is negative or a row sums below one.
    values = x.data if sparse.issparse(x) else x
    if values.size and values.min() < 0:
        warnings.warn(
            "dividing rows by their sum is ill-conditioned on features with negative values; "
            "normalize='standard' or 'none' may be meant",
            DrgcnWarning,
            stacklevel=4,
        )
    # Some versions of scipy add float32 rows in float32 whatever dtype they are asked for.
    sums = np.asarray(x.astype(np.float64).sum(axis=1)).ravel()
    sums[sums == 0] = np.inf
    if not sparse.issparse(x):
        return (x / sums[:, None]).astype(np.float32)
    divided = x.copy()
    divided.data = (x.data / np.repeat(sums, np.diff(x.indptr))).astype(np.float32)
    return divided


def _by_training_statistics(x: Features, train: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    if not train.any():
        raise InputError("normalize='standard' needs training nodes, but the split has none")
    dense = (x.toarray() if sparse.issparse(x) else np.asarray(x)).astype(np.float64)
    known = dense[train]
    # Rounding can give a constant column a tiny variance: ask the values, not the variance.
    varies = known.max(axis=0) > known.min(axis=0)
    scale = np.divide(1.0, known.std(axis=0), out=np.zeros(dense.shape[1]), where=varies)
    return ((dense - known.mean(axis=0)) * scale).astype(np.float32)
