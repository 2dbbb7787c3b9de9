"""Softmax over neighbourhoods for CUDA: one warp per node and lane, nothing between in memory."""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

from drgcn.nn.sparse_pattern import SparsePattern

_ENTRIES = 32


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _leaky(x, slope):  # type: ignore[no-untyped-def]
    return tl.where(x > 0, x, x * slope)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _forward(crow, col, target, source, out, nodes, nnz, slope, ENTRIES: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    row = tl.program_id(0)
    lane = tl.program_id(1).to(tl.int64)
    start = tl.load(crow + row)
    end = tl.load(crow + row + 1)
    own = tl.load(target + lane * nodes + row)
    top = tl.full([ENTRIES], float("-inf"), dtype=out.dtype.element_ty)
    for first in range(start, end, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        node = tl.load(col + entry, mask=entry < end, other=0)
        theirs = tl.load(source + lane * nodes + node, mask=entry < end, other=float("-inf"))
        top = tl.maximum(top, theirs)
    # The slope is positive, so the largest score is that of the largest source.
    shift = _leaky(own + tl.max(top, axis=0), slope)
    total = tl.zeros([ENTRIES], dtype=out.dtype.element_ty)
    for first in range(start, end, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        node = tl.load(col + entry, mask=entry < end, other=0)
        theirs = tl.load(source + lane * nodes + node, mask=entry < end, other=0.0)
        weight = tl.exp(_leaky(own + theirs, slope) - shift)
        total += tl.where(entry < end, weight, 0.0)
    scale = 1.0 / tl.sum(total, axis=0)
    for first in range(start, end, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        node = tl.load(col + entry, mask=entry < end, other=0)
        theirs = tl.load(source + lane * nodes + node, mask=entry < end, other=0.0)
        weight = tl.exp(_leaky(own + theirs, slope) - shift) * scale
        tl.store(out + lane * nnz + entry, weight, mask=entry < end)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _backward(  # type: ignore[no-untyped-def]
    crow, col, target, source, alpha, grad, grad_score, grad_target, nodes, nnz, slope,
    ENTRIES: tl.constexpr,  # noqa: N803
):  # fmt: skip
    row = tl.program_id(0)
    lane = tl.program_id(1).to(tl.int64)
    start = tl.load(crow + row)
    end = tl.load(crow + row + 1)
    own = tl.load(target + lane * nodes + row)
    dot = tl.zeros([ENTRIES], dtype=grad_score.dtype.element_ty)
    for first in range(start, end, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        a = tl.load(alpha + lane * nnz + entry, mask=entry < end, other=0.0)
        dot += a * tl.load(grad + lane * nnz + entry, mask=entry < end, other=0.0)
    mean = tl.sum(dot, axis=0)
    total = tl.zeros([ENTRIES], dtype=grad_score.dtype.element_ty)
    for first in range(start, end, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        stored = entry < end
        node = tl.load(col + entry, mask=stored, other=0)
        score = own + tl.load(source + lane * nodes + node, mask=stored, other=0.0)
        a = tl.load(alpha + lane * nnz + entry, mask=stored, other=0.0)
        g = tl.load(grad + lane * nnz + entry, mask=stored, other=0.0)
        g = a * (g - mean) * tl.where(score > 0, 1.0, slope)
        total += tl.where(stored, g, 0.0)
        tl.store(grad_score + lane * nnz + entry, g, mask=stored)
    tl.store(grad_target + lane * nodes + row, tl.sum(total, axis=0))


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _column_sum(crow, order, values, out, nodes, nnz, ENTRIES: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    row = tl.program_id(0)
    lane = tl.program_id(1).to(tl.int64)
    start = tl.load(crow + row)
    end = tl.load(crow + row + 1)
    total = tl.zeros([ENTRIES], dtype=out.dtype.element_ty)
    for first in range(start, end, ENTRIES):
        entry = first + tl.arange(0, ENTRIES)
        place = tl.load(order + entry, mask=entry < end, other=0)
        total += tl.load(values + lane * nnz + place, mask=entry < end, other=0.0)
    tl.store(out + lane * nodes + row, tl.sum(total, axis=0))


def attention_forward(
    target: Tensor, source: Tensor, pattern: SparsePattern, slope: float
) -> Tensor:
    """Coefficients ``[lanes, nnz]`` of scores ``[lanes, nodes]``."""
    target, source = target.contiguous(), source.contiguous()
    lanes, nodes = target.shape
    out = torch.empty(lanes, pattern.nnz, dtype=target.dtype, device=target.device)
    _forward[(nodes, lanes)](
        *(pattern.crow, pattern.col, target, source, out, nodes, pattern.nnz, slope),
        ENTRIES=_ENTRIES,
        num_warps=1,
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
    _backward[(nodes, lanes)](
        *(pattern.crow, pattern.col, target, source, alpha, grad, grad_score, grad_target),
        *(nodes, pattern.nnz, slope),
        ENTRIES=_ENTRIES,
        num_warps=1,
    )
    grad_source = torch.empty_like(source)
    _column_sum[(nodes, lanes)](
        *(pattern.transpose_crow, pattern.to_transpose, grad_score, grad_source),
        *(nodes, pattern.nnz),
        ENTRIES=_ENTRIES,
        num_warps=1,
    )
    return grad_target, grad_source
