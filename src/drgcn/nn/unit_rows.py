"""Rows of length one, for features that change at every step."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.nn.features import Features
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.spmm import spmm

# That of tf.nn.l2_normalize; it stands under the root. Rows of zeros stay zero.
_SMALLEST_SQUARE = 1e-12


def unit_rows(x: Features) -> Features:
    r"""Every row :math:`\mathbf{x}_v / \lVert \mathbf{x}_v \rVert_2`."""
    if not isinstance(x, SparseMatrix):
        return x * _reciprocal_root(x.square().sum(1, keepdim=True))
    ones = x.values.new_ones(x.shape[1], 1)
    squares = spmm(x.with_values(x.values.square()), ones).squeeze(1)
    return x.with_values(x.values * _reciprocal_root(squares)[x.pattern.row])


def _reciprocal_root(squares: Tensor) -> Tensor:
    return torch.rsqrt(squares.clamp(min=_SMALLEST_SQUARE))
