"""The logarithm of a sum over columns, without ever holding all logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from drgcn.kernels import triton_available

if triton_available():
    from drgcn.recommend.model.column_lse_kernel import lse_backward, lse_forward
else:
    lse_backward = lse_forward = None  # type: ignore[assignment]

_LOGITS = 1 << 24  # at once: 64 MiB in single precision


def column_lse(
    rows: Tensor,
    columns: Tensor,
    bias: Tensor,
    row_labels: Tensor,
    column_labels: Tensor,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""For each row :math:`b`, :math:`\log \sum_c \exp(\mathbf{u}_b \cdot \mathbf{v}_c + \beta_c)`
    over the columns whose label differs from the row's.

    Logits are computed in pieces, and again on the way back: memory grows with rows plus columns,
    not with their product. On CUDA, where Triton is there and the width is a power of two, one
    kernel there and two back keep them in registers.

    Args:
        rows: Vectors :math:`\mathbf{u}` ``[rows, d]``.
        columns: Vectors :math:`\mathbf{v}` ``[columns, d]``.
        bias: What is added to each column ``[columns]``; it gets no gradient.
        row_labels: Whole numbers ``[rows]``.
        column_labels: Whole numbers ``[columns]``.
        dtype: What products are taken in on CUDA, bfloat16 for speed; sums are always in single
            precision. (default: that of the rows)

    Returns:
        ``[rows]``, minus infinity where no column is left.
    """
    return _ColumnLSE.apply(rows, columns, bias, row_labels, column_labels, dtype)


class _ColumnLSE(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        columns: Tensor,
        bias: Tensor,
        row_labels: Tensor,
        column_labels: Tensor,
        dtype: torch.dtype | None,
    ) -> Tensor:
        arguments: tuple[Tensor, ...] = (rows, columns, bias, row_labels, column_labels)
        if _fused(rows):
            narrow = [t.to(dtype or t.dtype).contiguous() for t in (rows, columns)]
            arguments = (*narrow, bias, row_labels, column_labels)
            out = lse_forward(*arguments)
        else:
            pieces = _pieces(rows, columns)
            out = torch.cat([_logits(piece, *arguments).logsumexp(1) for piece in pieces])
        ctx.save_for_backward(out, *arguments)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        out, *arguments = ctx.saved_tensors
        (grad,) = grads
        rows, columns = arguments[:2]
        if _fused(rows):
            found = lse_backward(grad.contiguous(), out, *arguments)
            return (*found, None, None, None, None)
        grad_rows, grad_columns = torch.empty_like(rows), torch.zeros_like(columns)
        # A row without columns has nothing to pass on, and must not divide by zero.
        out = torch.where(out == -torch.inf, 0.0, out)
        for piece in _pieces(rows, columns):
            share = (_logits(piece, *arguments) - out[piece, None]).exp_()
            share *= grad[piece, None]
            torch.mm(share, columns, out=grad_rows[piece])
            grad_columns.addmm_(share.t(), rows[piece])
        return grad_rows, grad_columns, None, None, None, None


def _logits(
    piece: slice,
    rows: Tensor,
    columns: Tensor,
    bias: Tensor,
    row_labels: Tensor,
    column_labels: Tensor,
) -> Tensor:
    logits = torch.addmm(bias, rows[piece], columns.t())
    same = row_labels[piece, None] == column_labels
    return logits.masked_fill_(same, -torch.inf)


def _pieces(rows: Tensor, columns: Tensor) -> list[slice]:
    step = max(_LOGITS // max(columns.size(0), 1), 1)
    return [slice(b, min(b + step, rows.size(0))) for b in range(0, rows.size(0), step)]


def _fused(rows: Tensor) -> bool:
    width = rows.size(1)
    fits = 16 <= width <= 128 and width & (width - 1) == 0
    return lse_forward is not None and rows.is_cuda and fits and rows.dtype != torch.float64
