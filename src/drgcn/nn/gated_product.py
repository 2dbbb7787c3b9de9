"""Features times weights with a gate between them, in the cheapest order."""

from __future__ import annotations

from torch import Tensor

from drgcn.nn.features import Features
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.spmm import spmm
from drgcn.nn.tall_product import tall_product
from drgcn.reweighting import fold


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
