"""Means of encoded attributes on CUDA: one kernel there, one back.

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

_TILE = 2048  # elements that four warps hold in registers


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _there(  # type: ignore[no-untyped-def]
    table, nodes, numeric, codes, out, total, nobody, c, k, channels,
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
        node = tl.load(nodes + row * COUNT + step, mask=row < total, other=nobody)
        real = node < nobody
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
def _back(  # type: ignore[no-untyped-def]
    grad, nodes, codes, grad_table, total, nobody, c, k, channels,
    COUNT: tl.constexpr, ROWS: tl.constexpr, CATEGORIES: tl.constexpr, WIDTH: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    category = tl.arange(0, CATEGORIES)
    place = tl.arange(0, WIDTH)
    count = tl.zeros([ROWS], dtype=tl.float32)
    for step in range(COUNT):
        node = tl.load(nodes + row * COUNT + step, mask=row < total, other=nobody)
        count += tl.where(node < nobody, 1.0, 0.0)
    column = c + category[:, None] * WIDTH + place[None, :]
    received = tl.load(
        grad + (row * channels)[:, None, None] + column[None, :, :],
        mask=(row < total)[:, None, None] & (category < k)[None, :, None],
        other=0.0,
    ).to(tl.float32)
    received = received / tl.maximum(count, 1.0)[:, None, None]
    for step in range(COUNT):
        node = tl.load(nodes + row * COUNT + step, mask=row < total, other=nobody)
        inside = (node < nobody)[:, None] & (category < k)[None, :]
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
        _there[(triton.cdiv(nodes.size(0), shape["ROWS"]),)](
            *(table, nodes, numeric, codes, out, nodes.size(0), numeric.size(0) - 1, c, k),
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
        _back[(triton.cdiv(nodes.size(0), shape["ROWS"]),)](
            *(grad, nodes, codes, grad_table, nodes.size(0), codes.size(0) - 1, numbers, k),
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
