"""One sparse product with three faces: autograd, many seeds at once, CUDA graphs."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.sparse_pattern import SparsePattern

# Up to this many entries (a quarter of a gigabyte of indices) lanes become blocks: results
# then lie lane by lane, as every other operation wants them. Beyond, lanes become columns.
_LARGEST_BLOCK_DIAGONAL = 2**24


try:
    from drgcn.nn.csr_kernel import csr_product as _csr_product
except ImportError:  # no Triton (it comes with torch's CUDA builds), or no compiler for it
    _csr_product = None  # type: ignore[assignment]

with warnings.catch_warnings():
    # Torch says once per process that CSR is in beta. Let it say so here, to nobody.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False)


def spmm(matrix: SparseMatrix, x: Tensor) -> Tensor:
    """The product ``matrix @ x`` with a dense ``x`` of shape ``[columns, k]``.

    Differentiable in ``x`` and in the values of ``matrix``. Under :func:`torch.vmap` all lanes
    become one product: blocks of a block-diagonal matrix, or, if lanes share a large matrix,
    columns.
    """
    if x.dim() != 2 or x.size(0) != matrix.shape[1]:
        raise ValueError(
            f"spmm expects x of shape [{matrix.shape[1]}, k] for a matrix of shape "
            f"{list(matrix.shape)}; found {list(x.shape)}."
        )
    if x.dtype in (torch.bfloat16, torch.float16):
        x = x.to(matrix.dtype)  # as under autocast: sums over neighbours keep full precision
    return _SparseProduct.apply(matrix.values, x, matrix.pattern)


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(values: Tensor, x: Tensor, pattern: SparsePattern) -> Tensor:
        if x.is_cuda and _csr_product is not None:
            return _csr_product(pattern.crow, pattern.col, values, x)
        csr = torch.sparse_csr_tensor(
            pattern.crow, pattern.col, values, pattern.shape, check_invariants=False
        )
        # On CPU the reducing kernel is up to twice as fast: it writes its result directly,
        # where the plain product first fills and copies an array of zeros.
        return csr @ x if x.is_cuda else torch.sparse.mm(csr, x, "sum")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        values, x, ctx.pattern = inputs
        ctx.save_for_backward(values, x if ctx.needs_input_grad[0] else None)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        values, x = ctx.saved_tensors
        pattern: SparsePattern = ctx.pattern
        grad_values = grad_x = None
        if ctx.needs_input_grad[0]:
            grad_values = (grad[pattern.row] * x[pattern.col]).sum(-1)
        if ctx.needs_input_grad[1]:
            # The stored transpose: CSR would convert itself at every step, which is slow
            # and cannot be captured in a CUDA graph.
            transposed = values[pattern.to_transpose]
            grad_x = _SparseProduct.apply(transposed, grad.contiguous(), pattern.transpose)
        return grad_values, grad_x, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        values: Tensor,
        x: Tensor,
        pattern: SparsePattern,
    ) -> tuple[Tensor, int]:
        lanes = info.batch_size
        values_dim, x_dim, _ = in_dims
        if values_dim is None and lanes * pattern.nnz > _LARGEST_BLOCK_DIAGONAL:
            assert x_dim is not None
            wide = x.movedim(x_dim, 1)  # [columns, lanes, k]
            out = _SparseProduct.apply(values, wide.flatten(1), pattern)
            return out.unflatten(1, (lanes, wide.size(2))), 1
        values = values.repeat(lanes) if values_dim is None else values.movedim(values_dim, 0)
        x = x.expand(lanes, *x.shape) if x_dim is None else x.movedim(x_dim, 0)
        out = _SparseProduct.apply(values.flatten(), x.flatten(0, 1), pattern.repeat(lanes))
        return out.unflatten(0, (lanes, pattern.shape[0])), 0
