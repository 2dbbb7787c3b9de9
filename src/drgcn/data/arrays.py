"""Numeric arrays out of ``.npz`` and ``.npy`` files, never a pickled object."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from drgcn.data.features import Features
from drgcn.data.pickle import read_pickle
from drgcn.errors import InputError

Arrays = Mapping[str, npt.NDArray[Any]]


def read_arrays(path: Path) -> Arrays:
    """All arrays of an ``.npz`` file by name.

    Raises:
        InputError: If the file is damaged, no archive, or holds pickled objects.
    """
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise InputError(f"{path} holds a single array, but an .npz archive was expected")
            return {key: archive[key] for key in archive.files}
    except InputError:
        raise
    except Exception as error:  # a damaged archive can raise nearly anything
        raise InputError(_refusal(path, error)) from None


def read_array(path: Path) -> npt.NDArray[Any]:
    """The array of an ``.npy`` file, refused as above."""
    try:
        with path.open("rb") as file:
            array = np.load(file, allow_pickle=False)
            if isinstance(array, np.ndarray):
                return array
    except Exception as error:  # as above
        raise InputError(_refusal(path, error)) from None
    raise InputError(f"{path} holds an archive, but a single array was expected")


def read_matrix(path: Path) -> Features:
    """A feature matrix from an ``.npy``, ``.npz`` or ``.pkl`` file.

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
    """The matrix itself, once it is known to be two-dimensional, numeric and finite."""
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
    """Number of nodes, once the features are known to be a matrix."""
    if matrix.ndim != 2:
        raise InputError(
            f"{source}: features must be a matrix [nodes, features], but their shape is "
            f"{tuple(matrix.shape)}"
        )
    return int(matrix.shape[0])


def csr_from_parts(arrays: Arrays, prefix: str, source: object) -> sparse.csr_array:
    """The CSR matrix stored as ``<prefix>data``, ``indices``, ``indptr`` and ``shape``."""
    try:
        data, indices, indptr, shape = (
            arrays[f"{prefix}{part}"] for part in ("data", "indices", "indptr", "shape")
        )
        rows, columns = shape.tolist()
        matrix = sparse.csr_array((data, indices, indptr), shape=(rows, columns))
        matrix.check_format(full_check=True)
    except KeyError as error:
        raise InputError(
            f"{source}: a sparse matrix needs {prefix}data, {prefix}indices, {prefix}indptr and "
            f"{prefix}shape, but {error.args[0]} is not there"
        ) from None
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(
            f"{source}: {prefix}data, indices, indptr and shape do not form a CSR matrix ({error})"
        ) from None
    return matrix


def _refusal(path: Path, error: Exception) -> str:
    if "allow_pickle" in str(error) and "Object arrays" in str(error):
        return (
            f"{path} holds pickled Python objects, which are never opened: save plain numeric "
            "arrays (a sparse matrix as its data, indices, indptr and shape)"
        )
    return f"{path} is damaged or no numpy file ({type(error).__name__}): save or fetch it again"
