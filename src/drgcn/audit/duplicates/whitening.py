"""Dense features without their correlations, so that chance similarity can be told from more."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# A direction in which standardised features spread by less than a tenth counts less and less:
# what two copies differ in by rounding or noise is mostly there.
_FLOOR = 0.01
# Beyond this, a covariance matrix costs more than it tells.
_WIDEST = 4096
_CHUNK = 1 << 15


def whitened(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Columns of mean zero and variance one that are not correlated with each other.

    Rows z of standardised columns become ``z (C + 0.01)^(-1/2)``, where C is their correlation
    matrix. Among correlated columns many rows are alike without being the same: a large tumour
    is large in all ten measures of size. The symmetric root changes columns as little as
    possible, so columns that are independent stay what they are.

    Args:
        rows: Dense features; of more than 4,096 columns, correlations are left as they are.
    """
    mean = rows.mean(axis=0, dtype=np.float64)
    spread = rows.std(axis=0, dtype=np.float64)
    # A constant column can have a tiny spread by rounding: ask the values.
    varies = (rows.max(axis=0) > rows.min(axis=0)) if len(rows) else spread > 0
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=varies & (spread > 0))
    change = np.diag(scale)
    if 0 < rows.shape[1] <= _WIDEST and len(rows):
        correlation = np.zeros((rows.shape[1], rows.shape[1]))
        for at in range(0, len(rows), _CHUNK):
            block = (rows[at : at + _CHUNK] - mean) * scale
            correlation += block.T @ block / len(rows)
        values, vectors = np.linalg.eigh(correlation)
        root = vectors / np.sqrt(np.maximum(values, 0) + _FLOOR) @ vectors.T
        change = scale[:, None] * root
    result = np.empty(rows.shape, dtype=np.float32)
    for at in range(0, len(rows), _CHUNK):
        block = rows[at : at + _CHUNK] - mean
        result[at : at + _CHUNK] = block @ change if rows.shape[1] <= _WIDEST else block * scale
    return result
