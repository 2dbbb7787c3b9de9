"""Products of dense or sparse features with weights, with a gate between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.nn.graph import NodeGroups
from drgcn.nn.sparse import SparseMatrix, spmm
from drgcn.reweighting import fold

Features = Tensor | SparseMatrix

# Bag-of-words tables are 1 to 10 % dense; above this the dense product is faster.
SPARSE_BELOW = 0.2

# Rows of each piece of a tall product's gradient.
_ROWS = 512


def as_features(x: Tensor | SparseMatrix) -> Features:
    """Return dense features as they are, and sparse tensors as a :class:`SparseMatrix`."""
    if isinstance(x, SparseMatrix) or x.layout == torch.strided:
        return x
    return SparseMatrix.from_tensor(x)


def compress(x: Tensor | SparseMatrix) -> Features:
    """Return features in the layout that multiplies faster, by the share of their non-zeros."""
    if isinstance(x, SparseMatrix) or x.layout != torch.strided:
        return as_features(x)
    density = torch.count_nonzero(x) / max(x.numel(), 1)
    return SparseMatrix.from_tensor(x) if density < SPARSE_BELOW else x


def map_values(function: Callable[[Tensor], Tensor], x: Features) -> Features:
    """Apply an elementwise function that keeps zero at zero."""
    return x.with_values(function(x.values)) if isinstance(x, SparseMatrix) else function(x)


def dropout(x: Features, rate: float, training: bool) -> Features:
    """Drop entries in training; of sparse features, stored ones."""
    return map_values(lambda values: F.dropout(values, rate, training), x)


def gated_product(
    x: Features, weight: Tensor, s: Tensor | None = None, groups: NodeGroups | None = None
) -> Tensor:
    r"""The product :math:`\mathbf{X} \mathbf{S} \mathbf{W}`.

    One ``s`` for all nodes is folded into the weights, whatever the number of nodes. With one
    ``s`` per graph, sparse features meet one set of folded weights per graph, and dense ones are
    scaled.

    Args:
        x (Tensor or SparseMatrix): Node features ``[nodes, d]``; ``[heads, nodes, d]`` if every
            head sees its own.
        weight (Tensor): Weights ``[d, k]``; ``[heads, d, k]`` likewise.
        s (Tensor, optional): Gate ``[d]``, or ``[graphs, d]`` with ``groups``.
        groups (NodeGroups, optional): The graph of each node.
    """
    if s is not None and groups is None:
        weight = fold(weight, s, dim=-2)
    elif s is not None and groups is not None:
        if isinstance(x, SparseMatrix):
            folded = s[:, :, None] * weight[..., None, :, :]  # [..., graphs, d, k]
            return spmm(groups.as_blocks(x), folded.flatten(-3, -2))
        x = x * groups.spread(s)
    if isinstance(x, SparseMatrix):
        return spmm(x, weight)
    return tall_product(x, weight) if x.dim() == 2 else x @ weight


def tall_product(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight``, with a gradient for ``weight`` that keeps a GPU busy.

    That gradient, ``x.T @ grad``, is a small matrix summed over all nodes. GPU libraries give
    each entry to one thread block, which sums over all nodes while the rest of the device waits;
    here pieces of the nodes are summed side by side.
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
