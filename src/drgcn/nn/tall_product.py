"""The product of a tall feature matrix with a small weight matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_ROWS = 512


def tall_product(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight``, with a gradient for ``weight`` that keeps a GPU busy.

    That gradient, ``x.T @ grad``, is a small matrix summed over all nodes. GPU libraries give
    each entry to one thread block, which then walks over the nodes alone while the rest of the
    device waits; here the nodes are cut into pieces that are summed side by side.
    """
    return _TallProduct.apply(x, weight) if x.is_cuda else x @ weight


class _TallProduct(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return x @ weight

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        return (
            grad @ weight.t() if ctx.needs_input_grad[0] else None,
            _sum_over_rows(x, grad) if ctx.needs_input_grad[1] else None,
        )


def _sum_over_rows(x: Tensor, grad: Tensor) -> Tensor:
    pieces = x.size(0) // _ROWS
    if pieces < 2:
        return x.t() @ grad
    head = pieces * _ROWS
    a = x[:head].unflatten(0, (pieces, _ROWS))
    b = grad[:head].unflatten(0, (pieces, _ROWS))
    return (a.transpose(1, 2) @ b).sum(0) + x[head:].t() @ grad[head:]
