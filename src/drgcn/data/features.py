"""Feature matrices: reading, checking and normalising them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.data.readers import (
    csr_from_parts,
    read_array,
    read_arrays,
    read_pickle,
    require_memory,
)
from drgcn.errors import InputError, warn

# Either a dense float32 array or a scipy.sparse.csr_array of float32.
Features = Any

NORMALIZATIONS: Final = ("row", "standard", "none")


def read_matrix(path: Path) -> Features:
    """Read a feature matrix from an ``.npy``, ``.npz`` or ``.pkl`` file.

    An ``.npz`` file holds the matrix as ``x``, as its only array, or in scipy's CSR parts.
    """
    if path.suffix == ".pkl":
        matrix = read_pickle(path)
    elif path.suffix == ".npz":
        arrays = read_arrays(path)
        if len(arrays) == 1:
            (matrix,) = arrays.values()
        elif "x" in arrays:
            matrix = arrays["x"]
        else:
            matrix = csr_from_parts(arrays, "", path)
    elif path.suffix == ".npy":
        matrix = read_array(path)
    else:
        raise InputError(f"features must be an .npy, .npz or .pkl file, not {path}")
    return numeric_matrix(matrix, path)


def numeric_matrix(matrix: Any, source: object) -> Features:
    """Return features as float32, dense or CSR, after checking that they are a finite matrix."""
    if not isinstance(matrix, np.ndarray) and not sparse.issparse(matrix):
        raise InputError(f"{source}: features must be a matrix, not a {type(matrix).__name__}")
    count_rows(matrix, source)
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{source}: features must be numbers, but their type is {matrix.dtype}")
    with np.errstate(over="ignore"):
        matrix = matrix.astype(np.float32)
    coo = matrix.tocoo() if sparse.issparse(matrix) else None
    bad = np.flatnonzero(~np.isfinite(matrix if coo is None else coo.data))
    if len(bad):
        row, column = (
            np.unravel_index(bad[0], matrix.shape)
            if coo is None
            else (coo.row[bad[0]], coo.col[bad[0]])
        )
        raise InputError(
            f"{source}: the feature at row {row}, column {column} is not a finite float32 number: "
            "replace empty, NaN and infinite values first"
        )
    return matrix if coo is None else sparse.csr_array(matrix)


def count_rows(matrix: Any, source: object) -> int:
    """Return the number of rows of a feature matrix; anything else than a matrix is refused."""
    if matrix.ndim != 2:
        raise InputError(
            f"{source}: features must be a matrix [nodes, features], but their shape is "
            f"{tuple(matrix.shape)}"
        )
    require_memory(8 * sum(matrix.shape), source)
    return int(matrix.shape[0])


def normalized(x: Features, method: str, train: npt.NDArray[np.bool_]) -> Features:
    """Apply one of :data:`NORMALIZATIONS` to features; the input is left as it is.

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
        warn(
            "dividing rows by their sum is ill-conditioned on features with negative values; "
            "normalize='standard' or 'none' may be meant"
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
