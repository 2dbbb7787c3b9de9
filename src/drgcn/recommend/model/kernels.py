"""Triton kernels of the click model: log-sum-exp of columns, draws, encoded means.

There, a thread block holds a block of rows, walks over all columns and keeps a running maximum
and sum. Back, one kernel does the same for the gradient of rows, and one with the roles exchanged
for that of columns; both compute the logits anew. With 8192 rows, 9216 columns and width 64 that
is 48 GFLOP of products and some megabytes of memory; written logits would be 300 MB per pass.

There: a thread block holds a few rows; for each of their nodes it reads numbers, codes, and the
embeddings the codes name, and adds. Only ids come from memory that no cache holds: a row of
numbers is one or two sectors, the table of embeddings mostly lies in L2. Back: the gradient of a
row is added to the embeddings of its nodes by atomic sums, whose order (and so the last bit) is
not fixed.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

from drgcn.sampling.graph import CSRGraph
from drgcn.streams import MIX, SPREAD

# Few rows a block, so that a batch of 8192 keeps all of a large GPU busy.
_ROWS, _COLUMNS = 64, 64
_BLOCK = 256
_TILE = 2048  # elements that four warps hold in registers


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _lse_forward_kernel(  # type: ignore[no-untyped-def]
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
def _lse_backward_kernel(  # type: ignore[no-untyped-def]
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
    _lse_forward_kernel[(triton.cdiv(n, _ROWS),)](
        rows,
        columns,
        bias,
        row_labels,
        column_labels,
        out,
        n,
        m,
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
        _lse_backward_kernel[(triton.cdiv(held.size(0), _ROWS),)](
            held,
            walked,
            bias,
            held_labels,
            walked_labels,
            lse,
            grad,
            out,
            held.size(0),
            walked.size(0),
            HOLDS_ROWS=holds_rows,
            WIDTH=rows.size(1),
            ROWS=_ROWS,
            COLUMNS=_COLUMNS,
        )
        found.append(out)
    return found[0], found[1]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _draw_kernel(  # type: ignore[no-untyped-def]
    rowptr, col, rows, key, out, total, first, num_rows, num_cols,
    COUNT: tl.constexpr,  # noqa: N803
    SPREAD: tl.constexpr, FIRST: tl.constexpr, SECOND: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < total
    number = place // COUNT  # of the row among the rows
    row = tl.load(rows + number, mask=inside, other=num_rows)
    known = inside & (row < num_rows)
    begin = tl.load(rowptr + row, mask=known, other=0).to(tl.int64)
    degree = tl.load(rowptr + row + 1, mask=known, other=0).to(tl.int64) - begin
    z = (tl.load(key) + number + first).to(tl.uint64, bitcast=True) * SPREAD
    z = (z ^ (z >> 30)) * FIRST
    z = (z ^ (z >> 27)) * SECOND
    z = z ^ (z >> 31)
    chance = (z >> 32).to(tl.int64)
    step = (place % COUNT) << 32
    entry = begin + (((step + chance) * degree) >> 32) // COUNT
    real = degree > 0
    found = tl.load(col + entry, mask=real, other=0).to(tl.int64)
    tl.store(out + place, tl.where(real, found, num_cols), mask=inside)


def drawn_on_cuda(graph: CSRGraph, rows: Tensor, count: int, key: Tensor, first: int) -> Tensor:
    """Return :func:`~drgcn.recommend.model.sampling.draw_systematic` by one kernel."""
    out = torch.empty(*rows.shape, count, dtype=torch.int64, device=rows.device)
    if out.numel():
        _draw_kernel[(triton.cdiv(out.numel(), _BLOCK),)](
            graph.rowptr,
            graph.col,
            rows.contiguous(),
            key,
            out,
            out.numel(),
            first,
            graph.num_rows,
            graph.num_cols,
            COUNT=count,
            SPREAD=SPREAD,
            FIRST=MIX[0],
            SECOND=MIX[1],
            BLOCK=_BLOCK,
        )
    return out


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _encoding_forward_kernel(  # type: ignore[no-untyped-def]
    table, nodes, numeric, codes, out, total, padding, c, k, channels,
    COUNT: tl.constexpr, ROWS: tl.constexpr, NUMBERS: tl.constexpr, CATEGORIES: tl.constexpr,  # noqa: N803
    WIDTH: tl.constexpr, HAS_NUMBERS: tl.constexpr, HAS_CATEGORIES: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    number = tl.arange(0, NUMBERS)
    category = tl.arange(0, CATEGORIES)
    place = tl.arange(0, WIDTH)
    count = tl.zeros([ROWS], dtype=tl.float32)
    numbers = tl.zeros([ROWS, NUMBERS], dtype=tl.float32)
    embedded = tl.zeros([ROWS, CATEGORIES, WIDTH], dtype=tl.float32)
    for step in range(COUNT):
        node = tl.load(nodes + row * COUNT + step, mask=row < total, other=padding)
        real = node < padding
        count += tl.where(real, 1.0, 0.0)
        if HAS_NUMBERS:
            numbers += tl.load(
                numeric + node[:, None] * c + number[None, :],
                mask=real[:, None] & (number < c)[None, :],
                other=0.0,
            ).to(tl.float32)
        if HAS_CATEGORIES:
            inside = real[:, None] & (category < k)[None, :]
            code = tl.load(codes + node[:, None] * k + category[None, :], mask=inside, other=0)
            embedded += tl.load(
                table + code[:, :, None].to(tl.int64) * WIDTH + place[None, None, :],
                mask=inside[:, :, None],
                other=0.0,
            )
    share = 1.0 / tl.maximum(count, 1.0)
    start = row * channels
    if HAS_NUMBERS:
        tl.store(
            out + start[:, None] + number[None, :],
            (numbers * share[:, None]).to(out.dtype.element_ty),
            mask=(row < total)[:, None] & (number < c)[None, :],
        )
    if HAS_CATEGORIES:
        column = c + category[:, None] * WIDTH + place[None, :]
        tl.store(
            out + start[:, None, None] + column[None, :, :],
            (embedded * share[:, None, None]).to(out.dtype.element_ty),
            mask=(row < total)[:, None, None] & (category < k)[None, :, None],
        )


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _encoding_backward_kernel(  # type: ignore[no-untyped-def]
    grad, nodes, codes, grad_table, total, padding, c, k, channels,
    COUNT: tl.constexpr, ROWS: tl.constexpr, CATEGORIES: tl.constexpr, WIDTH: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    category = tl.arange(0, CATEGORIES)
    place = tl.arange(0, WIDTH)
    count = tl.zeros([ROWS], dtype=tl.float32)
    for step in range(COUNT):
        node = tl.load(nodes + row * COUNT + step, mask=row < total, other=padding)
        count += tl.where(node < padding, 1.0, 0.0)
    column = c + category[:, None] * WIDTH + place[None, :]
    received = tl.load(
        grad + (row * channels)[:, None, None] + column[None, :, :],
        mask=(row < total)[:, None, None] & (category < k)[None, :, None],
        other=0.0,
    ).to(tl.float32)
    received = received / tl.maximum(count, 1.0)[:, None, None]
    for step in range(COUNT):
        node = tl.load(nodes + row * COUNT + step, mask=row < total, other=padding)
        inside = (node < padding)[:, None] & (category < k)[None, :]
        code = tl.load(codes + node[:, None] * k + category[None, :], mask=inside, other=0)
        spot = code[:, :, None].to(tl.int64) * WIDTH + place[None, None, :]
        # Every mask has the full shape: a smaller one is not spread over atomic sums everywhere.
        wanted = inside[:, :, None] & (place < WIDTH)[None, None, :]
        tl.atomic_add(grad_table + spot, received, mask=wanted, sem="relaxed")


def encoded_mean(
    table: Tensor, nodes: Tensor, numeric: Tensor, codes: Tensor, dtype: torch.dtype
) -> Tensor:
    """Means ``[rows, numbers + categories * width]`` over nodes ``[rows, count]``."""
    c, k, width = numeric.size(1), codes.size(1), table.size(1)
    out = torch.empty(nodes.size(0), c + k * width, dtype=dtype, device=nodes.device)
    if out.numel():
        shape = _shape(c, k, width)
        _encoding_forward_kernel[(triton.cdiv(nodes.size(0), shape["ROWS"]),)](
            table,
            nodes,
            numeric,
            codes,
            out,
            nodes.size(0),
            numeric.size(0) - 1,
            c,
            k,
            out.size(1),
            COUNT=nodes.size(1),
            NUMBERS=triton.next_power_of_2(max(c, 1)),
            HAS_NUMBERS=c > 0,
            HAS_CATEGORIES=k > 0,
            WIDTH=width,
            **shape,
        )
    return out


def encoded_mean_backward(
    grad: Tensor, nodes: Tensor, codes: Tensor, shape_of_table: torch.Size, numbers: int
) -> Tensor:
    """The gradient of the table of embeddings."""
    grad_table = torch.zeros(shape_of_table, dtype=torch.float32, device=grad.device)
    k, width = codes.size(1), shape_of_table[1]
    if grad.numel() and k:
        shape = _shape(1, k, width)
        _encoding_backward_kernel[(triton.cdiv(nodes.size(0), shape["ROWS"]),)](
            grad,
            nodes,
            codes,
            grad_table,
            nodes.size(0),
            codes.size(0) - 1,
            numbers,
            k,
            grad.size(1),
            COUNT=nodes.size(1),
            WIDTH=width,
            **shape,
        )
    return grad_table


def _shape(c: int, k: int, width: int) -> dict[str, int]:
    categories = triton.next_power_of_2(max(k, 1))
    widest = max(triton.next_power_of_2(max(c, 1)), categories * width)
    return {"ROWS": max(min(_TILE // widest, 64), 1), "CATEGORIES": categories}
