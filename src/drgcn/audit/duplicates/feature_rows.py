"""Rows of features as the search for duplicates wants them, whatever layout they come in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from drgcn.data.assemble import as_features
from drgcn.data.features import Features, numeric_matrix

# From this share of non-zero entries on, a dense float32 matrix is at most 4/3 of the size of
# the CSR form, so that either layout may become the other without filling the memory.
_DENSE = 0.25
_DENSITY_CHUNK = 1 << 14


def feature_rows(x: Any) -> Features:
    """Checked rows in float32: a dense array, or CSR with sorted columns and no stored zeros.

    Sparse features are not made dense. What comes back shares no memory with sparse input, and
    nobody writes to it if the input is dense.

    Args:
        x: Features ``[nodes, columns]``: a tensor (dense, COO, CSR), an array, or a SciPy matrix.

    Raises:
        InputError: If they are no matrix of finite numbers; the message names row and column.
    """
    matrix = as_features(x, "features") if isinstance(x, torch.Tensor) else x
    matrix = numeric_matrix(matrix, "features")
    if sparse.issparse(matrix):
        matrix = sparse.csr_array(matrix, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        matrix.sort_indices()
    return matrix


def by_density(rows: Features) -> Features:
    """The same rows, CSR if few entries are not zero and dense else.

    So what is computed from rows depends on their content and not on the layout they came in.
    """
    entries = rows.nnz if sparse.issparse(rows) else np.count_nonzero(rows)
    dense = entries >= _DENSE * max(rows.shape[0] * rows.shape[1], 1)
    if dense:
        return rows.toarray() if sparse.issparse(rows) else rows
    return rows if sparse.issparse(rows) else sparse.csr_array(rows)


def bag_of_words(rows: Features) -> sparse.csr_array | None:
    """Zeros and ones, if the rows are a bag of words; ``None`` if their values say more.

    A bag of words may have been divided by its number of words or by its length: then the values
    of a row are equal, and follow from how many there are.
    """
    csr = rows if sparse.issparse(rows) else None
    if csr is None:
        if not all(
            _one_value(rows[at : at + _DENSITY_CHUNK])
            for at in range(0, len(rows), _DENSITY_CHUNK)
        ):
            return None
        csr = sparse.csr_array(rows)
    counts = np.diff(csr.indptr)
    some = counts > 0
    if not some.any():
        return None
    starts = csr.indptr[:-1][some]
    least = np.minimum.reduceat(csr.data, starts).astype(np.float64)
    most = np.maximum.reduceat(csr.data, starts).astype(np.float64)
    size = counts[some]
    follows = any(_constant(most * size**power) for power in (0.0, 0.5, 1.0))
    if least.min() <= 0 or not np.allclose(least, most, rtol=1e-5) or not follows:
        return None
    return filled(csr)


def filled(rows: sparse.csr_array) -> sparse.csr_array:
    """Ones where rows are not zero."""
    ones = np.ones(rows.nnz, dtype=np.float32)
    return sparse.csr_array((ones, rows.indices, rows.indptr), shape=rows.shape)


def row_sizes(rows: Features) -> npt.NDArray[np.int64]:
    """How many entries of each row are not zero."""
    if sparse.issparse(rows):
        return np.diff(rows.indptr).astype(np.int64)
    return np.count_nonzero(rows, axis=1).astype(np.int64)


def _one_value(block: npt.NDArray[np.float32]) -> bool:
    most = block.max(axis=1, keepdims=True, initial=0)
    return bool(np.all((block == 0) | (block >= most * np.float32(1 - 1e-5))))


def _constant(values: npt.NDArray[np.float64]) -> bool:
    return bool(np.allclose(values, values[0], rtol=1e-4, atol=0))
