"""One sparse product with three faces: autograd, many seeds at once, CUDA graphs."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from drgcn.kernels import triton_available
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.sparse_pattern import SparsePattern

# Up to this many entries (a quarter of a gigabyte of indices) lanes become blocks: results
# then lie lane by lane, as every other operation wants them. Beyond, lanes become columns.
_LARGEST_BLOCK_DIAGONAL = 2**24


if triton_available():
    from drgcn.kernels.sparse import csr_product as _csr_product
    from drgcn.kernels.sparse import sampled_product as _sampled_product
else:
    _csr_product = _sampled_product = None  # type: ignore[assignment]

with warnings.catch_warnings():
    # Torch says once per process that CSR is in beta. Let it say so here, to nobody.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False)


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


class _SparseProduct(torch.autograd.Function):
    """``values`` are ``[nnz]``, shared by all lanes, or ``[lanes, nnz]``; ``x`` is
    ``[lanes, columns, k]``."""

    @staticmethod
    def forward(values: Tensor, x: Tensor, pattern: SparsePattern, transpose: bool) -> Tensor:
        if x.is_cuda and _csr_product is not None:
            return _csr_product(pattern, values, x, transpose=transpose)
        if transpose:
            order = pattern.to_transpose.long().expand_as(values)
            values, pattern = values.gather(-1, order), pattern.transpose  # faster than indexing
        lanes, _, k = x.shape
        if lanes == 1:
            return _product(pattern, values.flatten(), x[0])[None]
        if values.dim() == 1 and lanes * pattern.nnz > _LARGEST_BLOCK_DIAGONAL:
            out = _product(pattern, values, x.transpose(0, 1).flatten(1))
            return out.unflatten(1, (lanes, k)).transpose(0, 1).contiguous()
        values = values.repeat(lanes) if values.dim() == 1 else values.flatten()
        out = _product(pattern.repeat(lanes), values, x.flatten(0, 1))
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
        x = _with_lanes(x, in_dims[1], info.batch_size)  # [outer, inner, columns, k]
        outer, inner = x.shape[:2]
        if in_dims[0] is not None or values.dim() == 2:
            values = _with_lanes(values, in_dims[0], outer)  # [outer, (inner,) nnz]
            values = values if values.dim() == 3 else values[:, None]
            values = values.expand(outer, inner, -1).flatten(0, 1)
        out = _SparseProduct.apply(values, x.flatten(0, 1), pattern, transpose)
        return out.unflatten(0, (outer, inner)), 0


class _SampledProduct(torch.autograd.Function):
    """Inner products of rows of two matrices ``[lanes, nodes, k]``, where entries are stored."""

    @staticmethod
    def forward(rows: Tensor, cols: Tensor, pattern: SparsePattern) -> Tensor:
        if rows.is_cuda and _sampled_product is not None:
            return _sampled_product(pattern, rows, cols)
        lanes, nnz = rows.size(0), pattern.nnz
        pattern = pattern if lanes == 1 else pattern.repeat(lanes)
        rows, cols = rows.flatten(0, 1), cols.flatten(0, 1)
        if torch.backends.mkl.is_available() and not rows.is_cuda and nnz and rows.size(1):
            # Twice as fast, since the gathered rows are never written down.
            zeros = rows.new_zeros(pattern.nnz)
            csr = torch.sparse_csr_tensor(
                pattern.crow, pattern.col, zeros, pattern.shape, check_invariants=False
            )
            return torch.sparse.sampled_addmm(csr, rows, cols.t()).values().view(lanes, nnz)
        gathered = rows.index_select(0, pattern.row) * cols.index_select(0, pattern.col)
        return gathered.sum(-1).view(lanes, nnz)

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
        rows = _with_lanes(rows, in_dims[0], info.batch_size)
        cols = _with_lanes(cols, in_dims[1], info.batch_size)
        out = _SampledProduct.apply(rows.flatten(0, 1), cols.flatten(0, 1), pattern)
        return out.unflatten(0, rows.shape[:2]), 0


def _product(pattern: SparsePattern, values: Tensor, x: Tensor) -> Tensor:
    csr = torch.sparse_csr_tensor(
        pattern.crow, pattern.col, values, pattern.shape, check_invariants=False
    )
    # On CPU the reducing kernel is up to twice as fast: it writes its result directly,
    # where the plain product first fills and copies an array of zeros.
    return csr @ x if x.is_cuda else torch.sparse.mm(csr, x, "sum")


def _with_lanes(x: Tensor, dim: int | None, lanes: int) -> Tensor:
    return x.expand(lanes, *x.shape) if dim is None else x.movedim(dim, 0)
