"""The sums of :mod:`~drgcn.recommend.model.column_lse` on CUDA: logits live in registers alone.

There, a thread block holds a block of rows, walks over all columns and keeps a running maximum
and sum. Back, one kernel does the same for the gradient of rows, and one with the roles exchanged
for that of columns; both compute the logits anew. With 8192 rows, 9216 columns and width 64 that
is 48 GFLOP of products and some megabytes of memory; written logits would be 300 MB per pass.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

# Few rows a block, so that a batch of 8192 keeps all of a large GPU busy.
_ROWS, _COLUMNS = 64, 64


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _there(  # type: ignore[no-untyped-def]
    rows, columns, bias, row_labels, column_labels, out, n, m,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    place = tl.arange(0, WIDTH)
    u = tl.load(rows + row[:, None] * WIDTH + place[None, :], mask=(row < n)[:, None], other=0.0)
    label = tl.load(row_labels + row, mask=row < n, other=-1)
    most = tl.full([ROWS], -1e30, dtype=tl.float32)
    total = tl.zeros([ROWS], dtype=tl.float32)
    for start in range(0, m, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        v = tl.load(
            columns + column[:, None] * WIDTH + place[None, :],
            mask=(column < m)[:, None],
            other=0.0,
        )
        beta = tl.load(bias + column, mask=column < m, other=0.0)
        theirs = tl.load(column_labels + column, mask=column < m, other=-1)
        counts = (column < m)[None, :] & (label[:, None] != theirs[None, :])
        logits = tl.dot(u, tl.trans(v), input_precision="tf32") + beta[None, :]
        logits = tl.where(counts, logits, -1e30)
        higher = tl.maximum(most, tl.max(logits, axis=1))
        total = total * tl.exp(most - higher)
        total += tl.sum(tl.where(counts, tl.exp(logits - higher[:, None]), 0.0), axis=1)
        most = higher
    found = tl.where(total > 0, most + tl.log(tl.maximum(total, 1e-37)), float("-inf"))
    tl.store(out + row, found, mask=row < n)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _back(  # type: ignore[no-untyped-def]
    held, walked, bias, held_labels, walked_labels, lse, grad, out, n, m,
    HOLDS_ROWS: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,  # noqa: N803
):  # fmt: skip
    # Holds a block of rows and walks over columns, or the other way round.
    mine = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    place = tl.arange(0, WIDTH)
    u = tl.load(held + mine[:, None] * WIDTH + place[None, :], mask=(mine < n)[:, None], other=0.0)
    label = tl.load(held_labels + mine, mask=mine < n, other=-1)
    if HOLDS_ROWS:
        level = tl.load(lse + mine, mask=mine < n, other=0.0)
        factor = tl.load(grad + mine, mask=mine < n, other=0.0)
    else:
        beta = tl.load(bias + mine, mask=mine < n, other=0.0)
    total = tl.zeros([ROWS, WIDTH], dtype=tl.float32)
    for start in range(0, m, COLUMNS):
        yours = start + tl.arange(0, COLUMNS)
        v = tl.load(
            walked + yours[:, None] * WIDTH + place[None, :], mask=(yours < m)[:, None], other=0.0
        )
        theirs = tl.load(walked_labels + yours, mask=yours < m, other=-1)
        counts = (mine < n)[:, None] & (yours < m)[None, :] & (label[:, None] != theirs[None, :])
        logits = tl.dot(u, tl.trans(v), input_precision="tf32")
        if HOLDS_ROWS:
            beta = tl.load(bias + yours, mask=yours < m, other=0.0)
            exponent = logits + beta[None, :] - level[:, None]
            share = tl.exp(tl.where(counts, exponent, -1e30)) * factor[:, None]
        else:
            level = tl.load(lse + yours, mask=yours < m, other=0.0)
            factor = tl.load(grad + yours, mask=yours < m, other=0.0)
            exponent = logits + beta[:, None] - level[None, :]
            share = tl.exp(tl.where(counts, exponent, -1e30)) * factor[None, :]
        total += tl.dot(share.to(v.dtype), v, input_precision="tf32")
    tl.store(out + mine[:, None] * WIDTH + place[None, :], total, mask=(mine < n)[:, None])


def lse_forward(
    rows: Tensor, columns: Tensor, bias: Tensor, row_labels: Tensor, column_labels: Tensor
) -> Tensor:
    """The logarithms of sums ``[rows]``, in single precision."""
    n, m = rows.size(0), columns.size(0)
    out = torch.empty(n, dtype=torch.float32, device=rows.device)
    _there[(triton.cdiv(n, _ROWS),)](
        *(rows, columns, bias, row_labels, column_labels, out, n, m),
        WIDTH=rows.size(1),
        ROWS=_ROWS,
        COLUMNS=_COLUMNS,
    )
    return out


def lse_backward(
    grad: Tensor,
    lse: Tensor,
    rows: Tensor,
    columns: Tensor,
    bias: Tensor,
    row_labels: Tensor,
    column_labels: Tensor,
) -> tuple[Tensor, Tensor]:
    """The gradients of rows and of columns, in single precision."""
    sides = ((rows, row_labels), (columns, column_labels))
    found = []
    for holds_rows in (True, False):
        (held, held_labels), (walked, walked_labels) = sides if holds_rows else sides[::-1]
        out = torch.empty(held.shape, dtype=torch.float32, device=held.device)
        _back[(triton.cdiv(held.size(0), _ROWS),)](
            *(held, walked, bias, held_labels, walked_labels, lse, grad, out),
            *(held.size(0), walked.size(0)),
            HOLDS_ROWS=holds_rows,
            WIDTH=rows.size(1),
            ROWS=_ROWS,
            COLUMNS=_COLUMNS,
        )
        found.append(out)
    return found[0], found[1]
