"""Triton kernels for softmax over neighbourhoods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

from drgcn.kernels.sparse import tile

if TYPE_CHECKING:
    from drgcn.nn.sparse import SparsePattern


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _leaky_relu(x, slope):  # type: ignore[no-untyped-def]
    return tl.where(x > 0, x, x * slope)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _forward_kernel(  # type: ignore[no-untyped-def]
    crow, col, target, source, out, nodes, nnz, slope,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.program_id(1).to(tl.int64)
    start = tl.load(crow + row, mask=row < nodes, other=0)
    end = tl.load(crow + row + 1, mask=row < nodes, other=0)
    longest = tl.max(end - start, axis=0)
    own = tl.load(target + lane * nodes + row, mask=row < nodes, other=0.0)[:, None]
    top = tl.full([ROWS, ENTRIES], float("-inf"), dtype=out.dtype.element_ty)
    for first in range(0, longest, ENTRIES):
        entry = start[:, None] + first + tl.arange(0, ENTRIES)[None, :]
        stored = entry < end[:, None]
        node = tl.load(col + entry, mask=stored, other=0)
        theirs = tl.load(source + lane * nodes + node, mask=stored, other=float("-inf"))
        top = tl.maximum(top, theirs)
    # The slope is positive, so the largest score is that of the largest source.
    shift = _leaky_relu(own + tl.max(top, axis=1)[:, None], slope)
    total = tl.zeros([ROWS, ENTRIES], dtype=out.dtype.element_ty)
    for first in range(0, longest, ENTRIES):
        entry = start[:, None] + first + tl.arange(0, ENTRIES)[None, :]
        stored = entry < end[:, None]
        node = tl.load(col + entry, mask=stored, other=0)
        theirs = tl.load(source + lane * nodes + node, mask=stored, other=0.0)
        weight = tl.exp(_leaky_relu(own + theirs, slope) - shift)
        total += tl.where(stored, weight, 0.0)
    scale = (1.0 / tl.sum(total, axis=1))[:, None]
    for first in range(0, longest, ENTRIES):
        entry = start[:, None] + first + tl.arange(0, ENTRIES)[None, :]
        stored = entry < end[:, None]
        node = tl.load(col + entry, mask=stored, other=0)
        theirs = tl.load(source + lane * nodes + node, mask=stored, other=0.0)
        weight = tl.exp(_leaky_relu(own + theirs, slope) - shift) * scale
        tl.store(out + lane * nnz + entry, weight, mask=stored)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _backward_kernel(  # type: ignore[no-untyped-def]
    crow, col, target, source, alpha, grad, grad_score, grad_target, nodes, nnz, slope,
    ROWS: tl.constexpr, ENTRIES: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.program_id(1).to(tl.int64)
    start = tl.load(crow + row, mask=row < nodes, other=0)
    end = tl.load(crow + row + 1, mask=row < nodes, other=0)
    longest = tl.max(end - start, axis=0)
    own = tl.load(target + lane * nodes + row, mask=row < nodes, other=0.0)[:, None]
    dot = tl.zeros([ROWS, ENTRIES], dtype=grad_score.dtype.element_ty)
    for first in range(0, longest, ENTRIES):
        entry = start[:, None] + first + tl.arange(0, ENTRIES)[None, :]
        stored = entry < end[:, None]
        a = tl.load(alpha + lane * nnz + entry, mask=stored, other=0.0)
        dot += a * tl.load(grad + lane * nnz + entry, mask=stored, other=0.0)
    mean = tl.sum(dot, axis=1)[:, None]
    total = tl.zeros([ROWS, ENTRIES], dtype=grad_score.dtype.element_ty)
    for first in range(0, longest, ENTRIES):
        entry = start[:, None] + first + tl.arange(0, ENTRIES)[None, :]
        stored = entry < end[:, None]
        node = tl.load(col + entry, mask=stored, other=0)
        score = own + tl.load(source + lane * nodes + node, mask=stored, other=0.0)
        a = tl.load(alpha + lane * nnz + entry, mask=stored, other=0.0)
        g = tl.load(grad + lane * nnz + entry, mask=stored, other=0.0)
        g = a * (g - mean) * tl.where(score > 0, 1.0, slope)
        total += tl.where(stored, g, 0.0)
        tl.store(grad_score + lane * nnz + entry, g, mask=stored)
    tl.store(grad_target + lane * nodes + row, tl.sum(total, axis=1), mask=row < nodes)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _column_sum_kernel(  # type: ignore[no-untyped-def]
    crow, order, values, out, nodes, nnz, ROWS: tl.constexpr, ENTRIES: tl.constexpr  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.program_id(1).to(tl.int64)
    start = tl.load(crow + row, mask=row < nodes, other=0)
    end = tl.load(crow + row + 1, mask=row < nodes, other=0)
    total = tl.zeros([ROWS, ENTRIES], dtype=out.dtype.element_ty)
    for first in range(0, tl.max(end - start, axis=0), ENTRIES):
        entry = start[:, None] + first + tl.arange(0, ENTRIES)[None, :]
        stored = entry < end[:, None]
        place = tl.load(order + entry, mask=stored, other=0)
        total += tl.load(values + lane * nnz + place, mask=stored, other=0.0)
    tl.store(out + lane * nodes + row, tl.sum(total, axis=1), mask=row < nodes)


def attention_forward(
    target: Tensor, source: Tensor, pattern: SparsePattern, slope: float
) -> Tensor:
    """Softmax coefficients ``[lanes, nnz]`` of scores ``[lanes, nodes]``."""
    target, source = target.contiguous(), source.contiguous()
    lanes, nodes = target.shape
    out = torch.empty(lanes, pattern.nnz, dtype=target.dtype, device=target.device)
    shape = tile(nodes, pattern.nnz)
    _forward_kernel[(triton.cdiv(nodes, shape["ROWS"]), lanes)](
        pattern.crow, pattern.col, target, source, out, nodes, pattern.nnz, slope, **shape
    )
    return out


def attention_backward(
    grad: Tensor,
    alpha: Tensor,
    target: Tensor,
    source: Tensor,
    pattern: SparsePattern,
    slope: float,
) -> tuple[Tensor, Tensor]:
    """Gradients ``[lanes, nodes]`` of both scores."""
    grad, target, source = grad.contiguous(), target.contiguous(), source.contiguous()
    lanes, nodes = target.shape
    grad_score, grad_target = torch.empty_like(grad), torch.empty_like(target)
    shape = tile(nodes, pattern.nnz)
    grid = (triton.cdiv(nodes, shape["ROWS"]), lanes)
    _backward_kernel[grid](
        pattern.crow,
        pattern.col,
        target,
        source,
        alpha,
        grad,
        grad_score,
        grad_target,
        nodes,
        pattern.nnz,
        slope,
        **shape,
    )
    grad_source = torch.empty_like(source)
    _column_sum_kernel[grid](
        pattern.transpose_crow,
        pattern.to_transpose,
        grad_score,
        grad_source,
        nodes,
        pattern.nnz,
        **shape,
    )
    return grad_target, grad_source
