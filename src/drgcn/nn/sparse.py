"""Sparse matrices in CSR form, and their product with autograd and ``vmap``."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from drgcn.kernels import LaneFunction, triton_available, with_lanes

if triton_available():
    from drgcn.kernels.sparse import csr_product as _triton_product
    from drgcn.kernels.sparse import sampled_product as _sampled_product
else:
    _triton_product = _sampled_product = None  # type: ignore[assignment]

# Up to this many entries (a quarter of a gigabyte of indices) lanes become blocks: results
# then lie lane by lane, as every other operation wants them. Beyond, lanes become columns.
_LARGEST_BLOCK_DIAGONAL = 2**24
# Most columns for which MKL's product is the faster on CPU.
_FEW_COLUMNS = 64
_LARGEST_INT = torch.iinfo(torch.int32).max

with warnings.catch_warnings():
    # Torch warns once per process that CSR is in beta: here, where the warning is ignored.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False)


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Values on a :class:`SparsePattern`. Multiply with :func:`spmm` or ``@``.

    Values are ``[nnz]``, or ``[heads, nnz]`` for one matrix per head.
    """

    pattern: SparsePattern
    values: Tensor

    @classmethod
    def from_coordinates(
        cls, row: Tensor, col: Tensor, values: Tensor, shape: tuple[int, int]
    ) -> SparseMatrix:
        """Return the matrix with ``values[k]`` at ``(row[k], col[k])``; positions are distinct."""
        pattern, order = SparsePattern.from_coordinates(row, col, shape)
        return cls(pattern, values[order])

    @classmethod
    def from_tensor(cls, x: Tensor) -> SparseMatrix:
        """Return the non-zeros of a dense, COO or CSR tensor."""
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
    @torch.inference_mode(False)
    def _constant_mean(self) -> Tensor:
        return self._column_mean()

    def _column_mean(self) -> Tensor:
        # As a product, because that adds in a fixed order on every device; index_add does not.
        ones = self.values.new_ones(self.shape[0], 1)
        return (self._transposed() @ ones).squeeze(1) / max(self.shape[0], 1)

    @cached_property
    def constant_csr(self) -> Tensor:
        """The matrix of constant values as torch multiplies it."""
        return replace(self, pattern=self.pattern.narrowed()).to_csr()

    @cached_property
    def constant_transpose(self) -> SparseMatrix:
        """The transposed matrix of constant values."""
        return self._transposed()

    def _transposed(self) -> SparseMatrix:
        return SparseMatrix(self.pattern.transpose, self.values[self.pattern.to_transpose])

    def with_values(self, values: Tensor) -> SparseMatrix:
        """Return a matrix with other values at the same positions."""
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
        return spmm(self, x)


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
        """Return the pattern of ``(row, col)`` pairs, and the order that sorts values into it."""
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
    @torch.inference_mode(False)
    def row(self) -> Tensor:
        """Row of each entry."""
        rows = torch.arange(self.shape[0], device=self.col.device)
        return rows.repeat_interleave(self.crow.diff(), output_size=self.nnz)

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self.col.numel()

    def repeat(self, count: int) -> SparsePattern:
        """Return ``count`` copies along the diagonal: one block per lane of a batched product."""
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
            ).narrowed()
        return self._repeats[count]

    def narrowed(self) -> SparsePattern:
        """The same pattern in 32 bits if they suffice: MKL converts others at every product."""
        if self.col.is_cuda or max(self.nnz, *self.shape) > _LARGEST_INT:
            return self
        return SparsePattern(
            crow=self.crow.int(),
            col=self.col.int(),
            to_transpose=self.to_transpose,
            transpose_crow=self.transpose_crow.int(),
            transpose_col=self.transpose_col.int(),
            shape=self.shape,
        )

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
    """Convert to the fastest kernel's index type: 32 bits on CUDA if they suffice, else 64."""
    fits = not index.numel() or int(index.max()) <= _LARGEST_INT
    return index.int() if index.is_cuda and fits else index.long()


def spmm(matrix: SparseMatrix, x: Tensor) -> Tensor:
    """The product ``matrix @ x`` with a dense ``x`` of shape ``[columns, k]``.

    A matrix with values ``[heads, nnz]`` is one matrix per head on the same pattern, and takes
    ``x`` ``[heads, columns, k]``. Differentiable in ``x`` and in the values. Under
    :func:`torch.vmap`, nested or not, all lanes become one product.
    """
    heads = list(matrix.values.shape[:-1])
    if x.dim() != len(heads) + 2 or list(x.shape[:-1]) != [*heads, matrix.shape[1]]:
        expected = ", ".join(map(str, [*heads, matrix.shape[1], "k"]))
        raise ValueError(
            f"spmm expects x of shape [{expected}] for a matrix of shape "
            f"{[*heads, *matrix.shape]}; found {list(x.shape)}."
        )
    if x.dtype in (torch.bfloat16, torch.float16):
        x = x.to(matrix.dtype)  # as under autocast: sums over neighbours keep full precision
    if heads:
        return _SparseProduct.apply(matrix.values, x, matrix.pattern, False)
    return _SparseProduct.apply(matrix.values, x[None], matrix.pattern, False).squeeze(0)


def sparse_product(matrix: SparseMatrix, x: Tensor) -> Tensor:
    """The products ``[lanes, rows, k]`` of one matrix with ``x`` ``[lanes, columns, k]``."""
    return _SparseProduct.apply(matrix.values, x, matrix.pattern, False)


def constant_product(matrix: SparseMatrix, x: Tensor) -> Tensor:
    """The same for values that need no gradient, outside of ``vmap``."""
    if len(x) == 1 and not x.is_cuda:
        return _ConstantProduct.apply(x[0], matrix)[None]
    return sparse_product(matrix, x)


class _SparseProduct(LaneFunction):
    """``values`` are ``[nnz]``, shared by all lanes, or ``[lanes, nnz]``; ``x`` is
    ``[lanes, columns, k]``."""

    @staticmethod
    def forward(values: Tensor, x: Tensor, pattern: SparsePattern, transpose: bool) -> Tensor:
        if x.is_cuda and _triton_product is not None:
            return _triton_product(pattern, values, x, transpose=transpose)
        if transpose:
            order = pattern.to_transpose.long().expand_as(values)
            values, pattern = values.gather(-1, order), pattern.transpose  # faster than indexing
        lanes, _, k = x.shape
        if lanes == 1:
            return csr_product(pattern, values.flatten(), x[0])[None]
        if values.dim() == 1 and lanes * pattern.nnz > _LARGEST_BLOCK_DIAGONAL:
            out = csr_product(pattern, values, x.transpose(0, 1).flatten(1))
            return out.unflatten(1, (lanes, k)).transpose(0, 1).contiguous()
        values = values.repeat(lanes) if values.dim() == 1 else values.flatten()
        out = csr_product(pattern.repeat(lanes), values, x.flatten(0, 1))
        return out.unflatten(0, (lanes, pattern.shape[0]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        values, x, ctx.pattern, ctx.transpose = inputs
        ctx.save_for_backward(values, x if ctx.needs_input_grad[0] else None)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        values, x = ctx.saved_tensors
        grad_values = grad_x = None
        if ctx.needs_input_grad[0]:
            rows, cols = (x, grad) if ctx.transpose else (grad, x)
            grad_values = _SampledProduct.apply(rows, cols, ctx.pattern)
            grad_values = grad_values.sum(0) if values.dim() == 1 else grad_values
        if ctx.needs_input_grad[1]:
            # The stored transpose: CSR would convert itself at every step, which is slow
            # and cannot be captured in a CUDA graph.
            grad_x = _SparseProduct.apply(values, grad, ctx.pattern, not ctx.transpose)
        return grad_values, grad_x, None, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        values: Tensor,
        x: Tensor,
        pattern: SparsePattern,
        transpose: bool,
    ) -> tuple[Tensor, int]:
        x = with_lanes(x, in_dims[1], info.batch_size)  # [outer, inner, columns, k]
        outer, inner = x.shape[:2]
        if in_dims[0] is not None or values.dim() == 2:
            values = with_lanes(values, in_dims[0], outer)  # [outer, (inner,) nnz]
            values = values if values.dim() == 3 else values[:, None]
            values = values.expand(outer, inner, -1).flatten(0, 1)
        out = _SparseProduct.apply(values, x.flatten(0, 1), pattern, transpose)
        return out.unflatten(0, (outer, inner)), 0


class _ConstantProduct(torch.autograd.Function):
    """The product with ``x`` ``[columns, k]`` of a matrix that is transposed but once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        return times(matrix.constant_csr, x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return times(ctx.matrix.constant_transpose.constant_csr, grad), None


class _SampledProduct(LaneFunction):
    """Inner products of rows of two matrices ``[lanes, nodes, k]``, where entries are stored."""

    @staticmethod
    def forward(rows: Tensor, cols: Tensor, pattern: SparsePattern) -> Tensor:
        if rows.is_cuda and _sampled_product is not None:
            return _sampled_product(pattern, rows, cols)
        lanes, nnz = rows.size(0), pattern.nnz
        pattern = pattern if lanes == 1 else pattern.repeat(lanes)
        return inner_products(pattern, rows.flatten(0, 1), cols.flatten(0, 1)).view(lanes, nnz)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        rows, cols, ctx.pattern = inputs
        ctx.save_for_backward(rows, cols)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        rows, cols = ctx.saved_tensors
        return (
            _SparseProduct.apply(grad, cols, ctx.pattern, False),
            _SparseProduct.apply(grad, rows, ctx.pattern, True),
            None,
        )

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], rows: Tensor, cols: Tensor, pattern: Any
    ) -> tuple[Tensor, int]:
        rows = with_lanes(rows, in_dims[0], info.batch_size)
        cols = with_lanes(cols, in_dims[1], info.batch_size)
        out = _SampledProduct.apply(rows.flatten(0, 1), cols.flatten(0, 1), pattern)
        return out.unflatten(0, rows.shape[:2]), 0


def inner_products(pattern: SparsePattern, rows: Tensor, cols: Tensor) -> Tensor:
    """Inner products ``[nnz]`` of rows of two matrices, where entries are stored; no gradient."""
    if torch.backends.mkl.is_available() and not rows.is_cuda and pattern.nnz and rows.size(1):
        # Twice as fast, since the gathered rows are never written down; but ten times as slow
        # with an odd number of columns.
        if rows.size(1) % 8:
            rows, cols = (F.pad(x, (0, -x.size(1) % 8)) for x in (rows, cols))
        zeros = rows.new_zeros(pattern.nnz)
        csr = torch.sparse_csr_tensor(
            pattern.crow, pattern.col, zeros, pattern.shape, check_invariants=False
        )
        return torch.sparse.sampled_addmm(csr, rows, cols.t()).values()
    gathered = rows.index_select(0, pattern.row) * cols.index_select(0, pattern.col)
    return gathered.sum(-1)


def csr_product(pattern: SparsePattern, values: Tensor, x: Tensor) -> Tensor:
    """The product of one matrix with ``x`` ``[columns, k]``, by torch; no gradient."""
    csr = torch.sparse_csr_tensor(
        pattern.crow, pattern.col, values, pattern.shape, check_invariants=False
    )
    return times(csr, x)


def times(csr: Tensor, x: Tensor) -> Tensor:
    """The product of a CSR tensor with ``x`` ``[columns, k]``; no gradient."""
    # On CPU MKL's product is the faster with few columns; with more both are as fast.
    full = x.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu")
    few = full and torch.backends.mkl.is_available() and x.size(1) <= _FEW_COLUMNS
    # MKL finds rows by numbers of 32 bits, and reads elsewhere if those are too small.
    rows, columns = csr.shape
    largest = max(rows * x.size(1), columns * x.size(1), rows, columns, csr.col_indices().numel())
    if few and largest <= _LARGEST_INT and not x.is_cuda:
        # Without an array of zeros, which ``@`` first fills and copies.
        return x.new_empty(rows, x.size(1)).addmm_(csr, x, beta=0)
    return csr @ x if x.is_cuda else torch.sparse.mm(csr, x, "sum")
