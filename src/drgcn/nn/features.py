"""Node features that stay sparse when they come sparse."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from drgcn.nn.sparse_matrix import SparseMatrix

Features = Tensor | SparseMatrix

# Bag-of-words tables are 1 to 10 % dense; above this the dense product is faster.
SPARSE_BELOW = 0.2


def as_features(x: Tensor | SparseMatrix) -> Features:
    """Dense features as they are; sparse tensors as a :class:`SparseMatrix`."""
    if isinstance(x, SparseMatrix) or x.layout == torch.strided:
        return x
    return SparseMatrix.from_tensor(x)


def compress(x: Tensor | SparseMatrix) -> Features:
    """Features in the layout that multiplies faster, by the share of their non-zeros."""
    if isinstance(x, SparseMatrix) or x.layout != torch.strided:
        return as_features(x)
    density = torch.count_nonzero(x) / max(x.numel(), 1)
    return SparseMatrix.from_tensor(x) if density < SPARSE_BELOW else x


def map_values(function: Callable[[Tensor], Tensor], x: Features) -> Features:
    """Applies an elementwise function that keeps zero at zero."""
    return x.with_values(function(x.values)) if isinstance(x, SparseMatrix) else function(x)
