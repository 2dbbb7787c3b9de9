"""Scores of nodes that are linear in their features, for as many nodes as are asked for."""

from __future__ import annotations

from torch import Tensor

from drgcn.nn.shared_product import shared_product

# Up to so many nodes, scoring all of them once is cheaper than gathering rows again and again.
_SMALL_TABLE = 2**15


class NodeScores:
    """``x @ weight`` by rows.

    Args:
        x: Features of all nodes ``[nodes, d]``.
        weight: One column per score ``[d, scores]``.
    """

    def __init__(self, x: Tensor, weight: Tensor) -> None:
        self.x, self.weight = x, weight
        self.table = shared_product(x, weight) if len(x) <= _SMALL_TABLE else None

    def __call__(self, nodes: Tensor, column: int) -> Tensor:
        """One of the scores of some nodes."""
        if self.table is not None:
            return self.table[:, column][nodes]
        return self.x[nodes] @ self.weight[:, column]
