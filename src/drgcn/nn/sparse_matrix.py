"""A sparse matrix that is multiplied many times."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from drgcn.nn.sparse_pattern import SparsePattern


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Values on a :class:`SparsePattern`. Multiply with :func:`~drgcn.nn.spmm` or ``@``.

    Values are ``[nnz]``, or ``[heads, nnz]`` for one matrix per head.
    """

    pattern: SparsePattern
    values: Tensor

    @classmethod
    def from_coordinates(
        cls, row: Tensor, col: Tensor, values: Tensor, shape: tuple[int, int]
    ) -> SparseMatrix:
        """The matrix with ``values[k]`` at ``(row[k], col[k])``; positions must be distinct."""
        pattern, order = SparsePattern.from_coordinates(row, col, shape)
        return cls(pattern, values[order])

    @classmethod
    def from_tensor(cls, x: Tensor) -> SparseMatrix:
        """The non-zeros of a dense, COO or CSR tensor."""
        coo = x.detach().to_sparse_coo().coalesce()
        row, col = coo.indices()
        return cls.from_coordinates(row, col, coo.values(), (x.size(0), x.size(1)))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.pattern.shape

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the values."""
        return self.values.dtype

    @property
    def column_mean(self) -> Tensor:
        """Mean over rows, zeros included; computed once if the values are constants."""
        return self._column_mean() if self.values.requires_grad else self._constant_mean

    @cached_property
    def _constant_mean(self) -> Tensor:
        return self._column_mean()

    def _column_mean(self) -> Tensor:
        # As a product, because that adds in a fixed order on every device; index_add does not.
        transposed = SparseMatrix(self.pattern.transpose, self.values[self.pattern.to_transpose])
        ones = self.values.new_ones(self.shape[0], 1)
        return (transposed @ ones).squeeze(1) / max(self.shape[0], 1)

    def with_values(self, values: Tensor) -> SparseMatrix:
        """Other values at the same positions."""
        return SparseMatrix(self.pattern, values)

    def to(self, device: torch.device | str) -> SparseMatrix:
        """The same matrix on another device."""
        return SparseMatrix(self.pattern.to(device), self.values.to(device))

    def to_csr(self) -> Tensor:
        """As a ``torch.sparse_csr`` tensor."""
        return torch.sparse_csr_tensor(
            self.pattern.crow, self.pattern.col, self.values, self.shape, check_invariants=False
        )

    def to_dense(self) -> Tensor:
        """As a dense tensor."""
        dense = self.values.new_zeros(self.shape)
        return dense.index_put((self.pattern.row, self.pattern.col.long()), self.values)

    def __matmul__(self, x: Tensor) -> Tensor:
        from drgcn.nn.spmm import spmm

        return spmm(self, x)
