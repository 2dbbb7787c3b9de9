"""Losses: a softmax over sampled items that never holds all logits, and BPR."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.errors import InputError
from drgcn.kernels import triton_available

if triton_available():
    from drgcn.recommend.model.kernels import lse_backward, lse_forward
else:
    lse_backward = lse_forward = None  # type: ignore[assignment]

_LOGITS = 1 << 24  # at once: 64 MiB in single precision
LogQ = Literal["standard", "refined", "off"]


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


def softmax_loss(
    users: Tensor,
    items: Tensor,
    positives: Tensor,
    item_ids: Tensor,
    log_q: Tensor,
    *,
    first: int = 0,
    logq: LogQ = "standard",
    mask_hits: bool = True,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""The mean of :math:`-\log` of the share of a user's item among the sampled ones.

    The column of a sampled item that is not the user's counts with :math:`\exp(\mathbf{u} \cdot
    \mathbf{v}_c - \log q_c)`, where :math:`q_c` is its chance to be drawn. The user's own item

    * is corrected likewise (:obj:`"standard"`, as is usual), or
    * is not, while negatives are corrected by the number of times they are expected
      (:obj:`"refined"`): it is there for certain, not by chance. The sum is then an unbiased
      estimate of the full softmax's (Khrylchenko et al., 2025).

    Args:
        users: Vectors of users ``[B, d]``, divided by the temperature.
        items: Vectors of sampled items ``[C, d]``; those from ``first`` on are the users' own.
        positives: The user's item ``[B]``.
        item_ids: The item of each column ``[C]``.
        log_q: Logarithm of the chance of each column ``[C]``.
        first: The column of the first user's item.
        logq: How to correct, or :obj:`"off"`.
        mask_hits: Leave out columns that hold the user's item by accident.
        dtype: What products are taken in on CUDA.
    """
    if logq not in ("standard", "refined", "off"):
        raise InputError(f"Expected logq to be standard, refined or off; found {logq!r}.")
    rows, columns = users.size(0), items.size(0)
    log_q = log_q.to(users.dtype)
    own = items[first : first + rows]
    score = (users * own).sum(-1)
    if logq == "off":
        bias = torch.zeros_like(log_q)
    elif logq == "standard":
        bias, score = -log_q, score - log_q[first : first + rows]
    else:
        bias = -log_q - math.log(columns)
    if mask_hits:
        row_labels, column_labels = positives, item_ids
    else:
        row_labels = torch.arange(first, first + rows, device=users.device)
        column_labels = torch.arange(columns, device=users.device)
    rest = column_lse(users, items, bias, row_labels, column_labels, dtype=dtype)
    # log(e^score + e^rest) - score; the user's own column is in `score` and not in `rest`.
    return F.softplus(rest - score).mean()


def bpr_loss(users: Tensor, items: Tensor, negatives: Tensor) -> Tensor:
    r"""The mean of :math:`-\log \sigma(\mathbf{u} \cdot \mathbf{v}_+ - \mathbf{u} \cdot
    \mathbf{v}_-)` over rows of users, their items, and others."""
    return F.softplus((users * (negatives - items)).sum(-1)).mean()
