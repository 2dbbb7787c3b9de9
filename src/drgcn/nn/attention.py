"""Attention coefficients over neighbourhoods, with autograd and for many lanes at once."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.kernels import triton_available
from drgcn.nn.sparse_pattern import SparsePattern

if triton_available():
    from drgcn.kernels.attention import attention_backward as _cuda_backward
    from drgcn.kernels.attention import attention_forward as _cuda_forward
else:
    _cuda_forward = _cuda_backward = None  # type: ignore[assignment]


def attention_coefficients(
    target: Tensor, source: Tensor, pattern: SparsePattern, negative_slope: float = 0.2
) -> Tensor:
    r"""Softmax over each node's neighbours of
    :math:`\mathrm{LeakyReLU}(t_i + s_j)`, for every head.

    Args:
        target (Tensor): Scores :math:`t` of the nodes that look ``[heads, nodes]``.
        source (Tensor): Scores :math:`s` of the nodes that are looked at, likewise.
        pattern (SparsePattern): Row ``i`` holds the neighbours of node ``i``.
        negative_slope (float, optional): Slope of LeakyReLU, positive.

    Shapes:
        - **output:** one coefficient per head and stored entry ``[heads, nnz]``
    """
    if target.shape != source.shape or target.dim() != 2 or target.size(1) != pattern.shape[0]:
        raise ValueError(
            f"attention_coefficients expects two scores of shape [heads, {pattern.shape[0]}]; "
            f"found {list(target.shape)} and {list(source.shape)}."
        )
    return _Attention.apply(target, source, pattern, negative_slope)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(target: Tensor, source: Tensor, pattern: SparsePattern, slope: float) -> Tensor:
        if target.is_cuda and _cuda_forward is not None:
            return _cuda_forward(target, source, pattern, slope)
        # Entries first and lanes last: then a neighbourhood is a run of rows.
        scores = F.leaky_relu(_scores(target, source, pattern), slope)  # [nnz, lanes]
        top = torch.segment_reduce(scores, "max", offsets=pattern.crow, axis=0)
        weights = (scores - top.index_select(0, pattern.row)).exp()
        total = torch.segment_reduce(weights, "sum", offsets=pattern.crow, axis=0)
        return (weights / total.index_select(0, pattern.row)).t().contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        target, source, ctx.pattern, ctx.slope = inputs
        ctx.save_for_backward(target, source, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        target, source, alpha = ctx.saved_tensors
        grads = _AttentionGradient.apply(grad, alpha, target, source, ctx.pattern, ctx.slope)
        return *grads, None, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        target: Tensor,
        source: Tensor,
        pattern: SparsePattern,
        slope: float,
    ) -> tuple[Tensor, int]:
        target, source = _flat(info.batch_size, in_dims, target, source)
        return _Attention.apply(target, source, pattern, slope).unflatten(
            0, (info.batch_size, -1)
        ), 0


class _AttentionGradient(torch.autograd.Function):
    """The backward pass as a function of its own, so that vmap can take it in lanes too."""

    @staticmethod
    def forward(
        grad: Tensor,
        alpha: Tensor,
        target: Tensor,
        source: Tensor,
        pattern: SparsePattern,
        slope: float,
    ) -> tuple[Tensor, Tensor]:
        if grad.is_cuda and _cuda_backward is not None:
            return _cuda_backward(grad, alpha, target, source, pattern, slope)
        grad, alpha = grad.t(), alpha.t()  # [nnz, lanes]
        weighted = (alpha * grad).contiguous()
        mean = torch.segment_reduce(weighted, "sum", offsets=pattern.crow, axis=0)
        score = weighted - alpha * mean.index_select(0, pattern.row)
        score = torch.where(_scores(target, source, pattern) > 0, score, score * slope)
        by_column = score.index_select(0, pattern.to_transpose)
        sums = (
            torch.segment_reduce(score, "sum", offsets=pattern.crow, axis=0),
            torch.segment_reduce(by_column, "sum", offsets=pattern.transpose_crow, axis=0),
        )
        return sums[0].t().contiguous(), sums[1].t().contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output)  # second gradients are not offered

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *arguments: Any
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        tensors = _flat(info.batch_size, in_dims, *arguments[:4])
        outputs = _AttentionGradient.apply(*tensors, *arguments[4:])
        target, source = (out.unflatten(0, (info.batch_size, -1)) for out in outputs)
        return (target, source), (0, 0)


def _scores(target: Tensor, source: Tensor, pattern: SparsePattern) -> Tensor:
    """Sums of scores where entries are stored ``[nnz, lanes]``."""
    rows = target.t().contiguous().index_select(0, pattern.row)
    return rows + source.t().contiguous().index_select(0, pattern.col)


def _flat(lanes: int, in_dims: tuple[int | None, ...], *tensors: Tensor) -> list[Tensor]:
    """Tensors ``[heads, ...]`` with an axis of lanes as ``[lanes * heads, ...]``."""
    return [
        (x.expand(lanes, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)
        for x, dim in zip(tensors, in_dims, strict=False)
    ]
