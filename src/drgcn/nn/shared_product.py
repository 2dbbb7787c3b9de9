"""The product of one feature table with the weights of many seeds."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def shared_product(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight`` for a constant ``x``.

    Under :func:`torch.vmap` over weights alone, the lanes' weights stand side by side and the
    table is read once; torch's own rule reads it once per lane.
    """
    return _Product.apply(x, weight)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return x @ weight

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (x,) = ctx.saved_tensors
        return None, _TransposedProduct.apply(x, grad)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, weight: Tensor) -> Any:
        return _side_by_side(_Product, lambda a, b: a @ b, info, in_dims, x, weight)


class _TransposedProduct(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, grad: Tensor) -> Tensor:
        return x.t() @ grad

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, grad: Tensor) -> Any:
        return _side_by_side(
            _TransposedProduct, lambda a, b: a.transpose(-1, -2) @ b, info, in_dims, x, grad
        )


def _side_by_side(
    function: Any, product: Any, info: Any, in_dims: tuple[int | None, int | None], *pair: Tensor
) -> tuple[Tensor, int]:
    x, lanes = pair
    if in_dims[0] is not None or in_dims[1] is None:
        first = [v if d is None else v.movedim(d, 0) for v, d in zip(pair, in_dims, strict=True)]
        return product(*first), 0
    columns = lanes.movedim(in_dims[1], 1).flatten(1)  # [d, lanes * k]
    return function.apply(x, columns).unflatten(1, (info.batch_size, -1)), 1
