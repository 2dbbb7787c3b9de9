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
        x (Tensor or SparseMatrix): Node features ``[nodes, d]``.
        weight (Tensor): Weights ``[d, k]``.
        s (Tensor, optional): Gate ``[d]``, or ``[graphs, d]`` with ``groups``.
        groups (NodeGroups, optional): The graph of each node.
    """
    if s is None or groups is None:
        weight = weight if s is None else fold(weight, s, dim=0)
        return spmm(x, weight) if isinstance(x, SparseMatrix) else tall_product(x, weight)
    if isinstance(x, SparseMatrix):
        folded = s[:, :, None] * weight  # [graphs, d, k]
        return spmm(groups.as_blocks(x), folded.flatten(0, 1))
    return tall_product(x * groups.spread(s), weight)
