"""Where the entries of a sparse matrix stand: CSR, with the transpose laid out once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class SparsePattern:
    """Positions of the stored entries of a CSR matrix, and of its transpose.

    Args:
        crow: Row pointers ``[rows + 1]``.
        col: Column of each entry ``[nnz]``.
        to_transpose: For each entry of the transpose, its position among these entries.
        shape: Rows and columns.
    """

    crow: Tensor
    col: Tensor
    to_transpose: Tensor
    transpose_crow: Tensor
    transpose_col: Tensor
    shape: tuple[int, int]
    _repeats: dict[int, SparsePattern] = field(default_factory=dict, repr=False)

    @classmethod
    def from_coordinates(
        cls, row: Tensor, col: Tensor, shape: tuple[int, int]
    ) -> tuple[SparsePattern, Tensor]:
        """The pattern of ``(row, col)`` pairs, and the order that sorts their values into it."""
        order = torch.argsort(row * shape[1] + col)
        row, col = row[order], col[order]
        to_transpose = torch.argsort(col * shape[0] + row)
        pattern = cls(
            crow=_pointers(row, shape[0]),
            col=_narrow(col),
            to_transpose=_narrow(to_transpose),
            transpose_crow=_pointers(col[to_transpose], shape[1]),
            transpose_col=_narrow(row[to_transpose]),
            shape=shape,
        )
        return pattern, order

    @cached_property
    def transpose(self) -> SparsePattern:
        """The pattern of the transposed matrix."""
        from_transpose = torch.empty_like(self.to_transpose)
        from_transpose[self.to_transpose.long()] = torch.arange(
            self.nnz, dtype=from_transpose.dtype, device=from_transpose.device
        )
        return SparsePattern(
            crow=self.transpose_crow,
            col=self.transpose_col,
            to_transpose=from_transpose,
            transpose_crow=self.crow,
            transpose_col=self.col,
            shape=(self.shape[1], self.shape[0]),
        )

    @cached_property
    def row(self) -> Tensor:
        """Row of each entry."""
        rows = torch.arange(self.shape[0], device=self.col.device)
        return rows.repeat_interleave(self.crow.diff(), output_size=self.nnz)

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self.col.numel()

    def repeat(self, count: int) -> SparsePattern:
        """``count`` copies along the diagonal: one block per lane of a batched product."""
        if count not in self._repeats:
            shift = torch.arange(count, device=self.col.device)[:, None]

            def blocks(index: Tensor, step: int) -> Tensor:
                return (index.long() + shift * step).flatten()

            def pointers(crow: Tensor) -> Tensor:
                return torch.cat([crow[:1].long(), blocks(crow[1:], self.nnz)])

            rows, cols = self.shape
            self._repeats[count] = SparsePattern(
                crow=_narrow(pointers(self.crow)),
                col=_narrow(blocks(self.col, cols)),
                to_transpose=_narrow(blocks(self.to_transpose, self.nnz)),
                transpose_crow=_narrow(pointers(self.transpose_crow)),
                transpose_col=_narrow(blocks(self.transpose_col, rows)),
                shape=(rows * count, cols * count),
            )
        return self._repeats[count]

    def to(self, device: torch.device | str) -> SparsePattern:
        """The same pattern on another device."""
        return SparsePattern(
            crow=_narrow(self.crow.to(device)),
            col=_narrow(self.col.to(device)),
            to_transpose=_narrow(self.to_transpose.to(device)),
            transpose_crow=_narrow(self.transpose_crow.to(device)),
            transpose_col=_narrow(self.transpose_col.to(device)),
            shape=self.shape,
        )


def _pointers(sorted_index: Tensor, size: int) -> Tensor:
    counts = torch.bincount(sorted_index, minlength=size)
    return _narrow(torch.cat([counts.new_zeros(1), counts.cumsum(0)]))


def _narrow(index: Tensor) -> Tensor:
    """The index type of the fastest kernel: 32 bits on CUDA where they suffice, else 64."""
    fits = not index.numel() or int(index.max()) <= torch.iinfo(torch.int32).max
    return index.int() if index.is_cuda and fits else index.long()
