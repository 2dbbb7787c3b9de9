"""Triton kernels for CSR matrices: products, sampled products, largest entries, and look-ups.

cuSPARSE partitions the rows anew and clears the result in a pass of its own at every call. In a
small full-batch epoch that costs as much as the products themselves. Here lanes (seeds, heads)
are an axis of the launch: they share one pattern, which is read from cache after the first. Short
rows share a thread block, because starting a block for each takes longer than its work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

if TYPE_CHECKING:
    from drgcn.nn.sparse import SparseMatrix, SparsePattern
    from drgcn.sampling.graph import CSRGraph


_WIDEST_BLOCK = 128
_MOST_ENTRIES = 32  # loads in flight per row: enough to hide their latency
_TILE = 1024  # elements that a thread block of four warps holds in registers
_WIDE_TILE = 4096  # and one of a single warp, which holds fewer blocks' worth of rows
_NARROW = 16
_MOST_ROWS = 32
_LOOKUP_BLOCK = 256  # columns that a thread block looks up


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _product_kernel(  # type: ignore[no-untyped-def]
    crow, col, order, values, x, out, rows, k, value_lane, x_lane, out_lane,
    ORDERED: tl.constexpr, ROWS: tl.constexpr, ENTRIES: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.program_id(1).to(tl.int64)
    columns = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = (columns < k)[None, None, :]
    start = tl.load(crow + row, mask=row < rows, other=0)
    end = tl.load(crow + row + 1, mask=row < rows, other=0)
    total = tl.zeros([ROWS, BLOCK], dtype=out.dtype.element_ty)
    for first in range(0, tl.max(end - start, axis=0), ENTRIES):
        entry = start[:, None] + first + tl.arange(0, ENTRIES)[None, :]
        stored = entry < end[:, None]
        node = tl.load(col + entry, mask=stored, other=0).to(tl.int64)
        place = tl.load(order + entry, mask=stored, other=0) if ORDERED else entry
        value = tl.load(values + lane * value_lane + place, mask=stored, other=0.0)
        gathered = tl.load(
            x + lane * x_lane + node[:, :, None] * k + columns[None, None, :],
            mask=stored[:, :, None] & inside,
            other=0.0,
        )
        total += tl.sum(value[:, :, None] * gathered, axis=1)
    place = out + lane * out_lane + row[:, None] * k + columns[None, :]
    tl.store(place, total, mask=(row < rows)[:, None] & (columns < k)[None, :])


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _sampled_product_kernel(  # type: ignore[no-untyped-def]
    crow, col, left, right, out, rows, k, left_lane, right_lane, out_lane,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    lane = tl.program_id(1).to(tl.int64)
    start = tl.load(crow + row, mask=row < rows, other=0)
    end = tl.load(crow + row + 1, mask=row < rows, other=0)
    for first in range(0, tl.max(end - start, axis=0), ENTRIES):
        entry = start[:, None] + first + tl.arange(0, ENTRIES)[None, :]
        stored = entry < end[:, None]
        node = tl.load(col + entry, mask=stored, other=0).to(tl.int64)
        total = tl.zeros([ROWS, ENTRIES], dtype=out.dtype.element_ty)
        for block in range(0, k, BLOCK):
            columns = block + tl.arange(0, BLOCK)
            a = tl.load(
                left + lane * left_lane + row[:, None] * k + columns[None, :],
                mask=(row < rows)[:, None] & (columns < k)[None, :],
                other=0.0,
            )
            b = tl.load(
                right + lane * right_lane + node[:, :, None] * k + columns[None, None, :],
                mask=stored[:, :, None] & (columns < k)[None, None, :],
                other=0.0,
            )
            total += tl.sum(a[:, None, :] * b, axis=2)
        tl.store(out + lane * out_lane + entry, total, mask=stored)


def tile(rows: int, nnz: int, block: int = 1) -> dict[str, int]:
    """Rows that a thread block takes, entries of each that it takes at once, and its warps.

    Args:
        rows: Number of rows.
        nnz: Number of stored entries.
        block: Numbers that each entry is multiplied with.
    """
    if block > _NARROW:  # work enough for a block of one warp
        return {
            "ROWS": 1,
            "ENTRIES": max(1, min(_MOST_ENTRIES, _WIDE_TILE // block)),
            "num_warps": 1,
        }
    mean = -(-nnz // max(rows, 1))
    entries = min(_MOST_ENTRIES, triton.next_power_of_2(max(mean, 4)))
    height = max(1, min(_MOST_ROWS, _TILE // (entries * block)))
    return {"ROWS": height, "ENTRIES": entries, "num_warps": 4}


def csr_product(
    pattern: SparsePattern, values: Tensor, x: Tensor, *, transpose: bool = False
) -> Tensor:
    """The product of one CSR matrix per lane with ``x`` ``[lanes, columns, k]``.

    ``values`` is ``[lanes, nnz]``, or ``[nnz]`` where lanes share them. With ``transpose`` the
    matrices are transposed, their values taken from where they lie.
    """
    x, values = x.contiguous(), values.contiguous()
    crow = pattern.transpose_crow if transpose else pattern.crow
    col = pattern.transpose_col if transpose else pattern.col
    rows, (lanes, _, k) = crow.numel() - 1, x.shape
    out = torch.empty(lanes, rows, k, dtype=x.dtype, device=x.device)
    if out.numel():
        block = min(_WIDEST_BLOCK, triton.next_power_of_2(k))
        shape = tile(rows, pattern.nnz, block)
        grid = (triton.cdiv(rows, shape["ROWS"]), lanes, triton.cdiv(k, block))
        _product_kernel[grid](
            crow,
            col,
            pattern.to_transpose,
            values,
            x,
            out,
            rows,
            k,
            0 if values.dim() == 1 else values.size(1),
            x.stride(0),
            out.stride(0),
            ORDERED=transpose,
            BLOCK=block,
            **shape,
        )
    return out


def sampled_product(pattern: SparsePattern, left: Tensor, right: Tensor) -> Tensor:
    """Inner products ``left[l, row] . right[l, col]`` at the stored positions ``[lanes, nnz]``."""
    left, right = left.contiguous(), right.contiguous()
    lanes, rows, k = left.shape
    out = torch.empty(lanes, pattern.nnz, dtype=left.dtype, device=left.device)
    if out.numel():
        block = min(_WIDEST_BLOCK // 2, triton.next_power_of_2(k))
        shape = tile(rows, pattern.nnz, block)
        _sampled_product_kernel[(triton.cdiv(rows, shape["ROWS"]), lanes)](
            pattern.crow,
            pattern.col,
            left,
            right,
            out,
            rows,
            k,
            left.stride(0),
            right.stride(0),
            out.stride(0),
            BLOCK=block,
            **shape,
        )
    return out


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _largest_kernel(  # type: ignore[no-untyped-def]
    crow, col, values, x, out, chosen, d, nnz, COUNT: tl.constexpr, BLOCK: tl.constexpr  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < d
    start = tl.load(crow + row)
    length = tl.load(crow + row + 1) - start
    last = tl.full([BLOCK], float("inf"), dtype=out.dtype.element_ty)
    taken = tl.full([BLOCK], -1, dtype=tl.int32)
    for rank in range(COUNT):
        # The row is read again for each rank: after the first time it lies in the nearest cache.
        best = tl.zeros([BLOCK], dtype=out.dtype.element_ty)
        found = tl.zeros([BLOCK], dtype=tl.int32) + nnz
        for place in range(0, length):
            entry = (start + place).to(tl.int32)
            node = tl.load(col + entry).to(tl.int64)
            weight = tl.load(values + entry)
            reached = weight * tl.load(x + node * d + columns, mask=inside, other=0.0)
            reached = reached.to(out.dtype.element_ty)
            later = (reached < last) | ((reached == last) & (entry > taken))
            better = later & (reached > best)
            best = tl.where(better, reached, best)
            found = tl.where(better, entry, found)
        target = (row * COUNT + rank) * d + columns
        tl.store(out + target, best, mask=inside)
        tl.store(chosen + target, found, mask=inside)
        last = best
        taken = found


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _largest_backward_kernel(  # type: ignore[no-untyped-def]
    crow, col, order, values, grad, chosen, out, d, COUNT: tl.constexpr, BLOCK: tl.constexpr  # noqa: N803
):  # fmt: skip
    # One thread block adds up all that reaches a node, in the order of the entries.
    node = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < d
    start = tl.load(crow + node)
    length = tl.load(crow + node + 1) - start
    total = tl.zeros([BLOCK], dtype=out.dtype.element_ty)
    for place in range(0, length):
        row = tl.load(col + start + place).to(tl.int64)
        entry = tl.load(order + start + place).to(tl.int32)
        weight = tl.load(values + entry)
        for rank in range(COUNT):
            source = (row * COUNT + rank) * d + columns
            hit = inside & (tl.load(chosen + source, mask=inside, other=-1) == entry)
            total += (weight * tl.load(grad + source, mask=hit, other=0.0)).to(total.dtype)
    tl.store(out + node * d + columns, total, mask=inside)


def largest_entries(matrix: SparseMatrix, x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """For every row and column of ``x`` ``[columns, d]``, the ``count`` largest products above
    zero of a stored entry with the value that it meets, and the entries; ``nnz`` for none.

    The first of equals comes first. Both are ``[rows, count, d]``.
    """
    x, pattern, d = x.contiguous(), matrix.pattern, x.size(1)
    out = torch.empty(pattern.shape[0], count, d, dtype=x.dtype, device=x.device)
    chosen = torch.empty(out.shape, dtype=torch.int32, device=x.device)
    if out.numel():
        block = min(_WIDEST_BLOCK, triton.next_power_of_2(d))
        grid = (pattern.shape[0], triton.cdiv(d, block))
        _largest_kernel[grid](
            pattern.crow,
            pattern.col,
            matrix.values,
            x,
            out,
            chosen,
            d,
            pattern.nnz,
            COUNT=count,
            BLOCK=block,
            num_warps=1,
        )
    return out, chosen


def largest_entries_backward(matrix: SparseMatrix, grad: Tensor, chosen: Tensor) -> Tensor:
    """Return the gradient of ``x`` ``[columns, d]``, given that of :func:`largest_entries`."""
    grad, chosen, pattern, d = grad.contiguous(), chosen.contiguous(), matrix.pattern, grad.size(2)
    out = torch.empty(pattern.shape[1], d, dtype=grad.dtype, device=grad.device)
    if out.numel():
        block = min(_WIDEST_BLOCK, triton.next_power_of_2(d))
        _largest_backward_kernel[(pattern.shape[1], triton.cdiv(d, block))](
            pattern.transpose_crow,
            pattern.transpose_col,
            pattern.to_transpose,
            matrix.values,
            grad,
            chosen,
            out,
            d,
            COUNT=grad.size(1),
            BLOCK=block,
            num_warps=1,
        )
    return out


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _lookup_kernel(  # type: ignore[no-untyped-def]
    rowptr, col, value, rows, cols, out, row_count, col_count,
    HAS_VALUE: tl.constexpr, LOOKS: tl.constexpr, BLOCK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    crossing = tl.program_id(0).to(tl.int64)  # lane and row
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = place < col_count
    lane = crossing // row_count
    row = tl.load(rows + crossing)
    wanted = tl.load(cols + lane * col_count + place, mask=inside, other=0).to(tl.int64)
    end = tl.load(rowptr + row + 1).to(tl.int64)
    low = tl.zeros([BLOCK], dtype=tl.int64) + tl.load(rowptr + row).to(tl.int64)
    high = tl.zeros([BLOCK], dtype=tl.int64) + end
    for _ in range(LOOKS):
        middle = (low + high) // 2
        open_ = middle < high
        here = tl.load(col + middle, mask=inside & open_, other=0).to(tl.int64)
        before = open_ & (here < wanted)
        low = tl.where(before, middle + 1, low)
        high = tl.where(before, high, middle)
    listed = inside & (low < end)
    found = listed & (tl.load(col + low, mask=listed, other=-1).to(tl.int64) == wanted)
    if HAS_VALUE:  # noqa: SIM108 - a branch of the compiler, not of the kernel
        entry = tl.load(value + low, mask=found, other=0.0)
    else:
        entry = tl.where(found, 1.0, 0.0)
    tl.store(out + crossing * col_count + place, entry, mask=inside)


def csr_lookup(graph: CSRGraph, rows: Tensor, cols: Tensor) -> Tensor:
    """Entries ``[..., rows, cols]`` for rows ``[..., rows]`` and columns ``[..., cols]``."""
    dtype = torch.get_default_dtype() if graph.value is None else graph.value.dtype
    out = torch.empty(*rows.shape, cols.size(-1), dtype=dtype, device=rows.device)
    if out.numel():
        grid = (rows.numel(), triton.cdiv(cols.size(-1), _LOOKUP_BLOCK))
        _lookup_kernel[grid](
            graph.rowptr,
            graph.col,
            graph.col if graph.value is None else graph.value,
            rows.contiguous(),
            cols.contiguous(),
            out,
            rows.size(-1),
            cols.size(-1),
            HAS_VALUE=graph.value is not None,
            LOOKS=graph.longest_row.bit_length(),
            BLOCK=_LOOKUP_BLOCK,
        )
    return out
