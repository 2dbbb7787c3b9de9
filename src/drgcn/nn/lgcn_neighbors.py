"""The largest values among each node's neighbours, feature by feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drgcn.nn.sparse_matrix import SparseMatrix

# Nodes with up to so many entries share the narrowest table; widths double from there.
_NARROWEST = 2

# Rows of one table: their nodes [m], and their entries [m, width] among those of the matrix.
Table = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class LargestNeighbors:
    """A matrix of the graph, with its rows laid out in tables so that they can be ranked.

    Rows of similar length share a table of their width, so that few places are empty and one long
    row does not widen all others.

    Args:
        matrix: Weight of each neighbour, such as the normalised adjacency matrix.
        tables: Nodes and entries of each table; entry ``nnz`` stands for an empty place.
    """

    matrix: SparseMatrix
    tables: tuple[Table, ...]

    @classmethod
    def of(cls, matrix: SparseMatrix) -> LargestNeighbors:
        """Lays out the rows of a matrix."""
        start, length = matrix.pattern.crow[:-1].long(), matrix.pattern.crow.diff().long()
        tables, below, width = [], 0, _NARROWEST
        while below < int(length.max() if length.numel() else 0):
            nodes = ((length > below) & (length <= width)).nonzero().squeeze(1)
            if nodes.numel():
                place = torch.arange(width, device=nodes.device)
                entries = start[nodes, None] + place
                empty = place >= length[nodes, None]
                tables.append((nodes, entries.masked_fill(empty, matrix.pattern.nnz)))
            below, width = width, 2 * width
        return cls(matrix, tuple(tables))

    def to(self, device: torch.device | str) -> LargestNeighbors:
        """The same on another device."""
        tables = tuple((nodes.to(device), entries.to(device)) for nodes, entries in self.tables)
        return LargestNeighbors(self.matrix.to(device), tables)

    def select(self, x: Tensor, count: int) -> Tensor:
        r"""For every node :math:`i` and feature, the ``count`` largest of
        :math:`\max(a_{ij} x_j, 0)` over its neighbours :math:`j`, the largest first, and zeros
        where neighbours are too few.

        Args:
            x (Tensor): Node features ``[nodes, d]``.
            count (int): How many values to take.

        Shapes:
            - **output:** ``[nodes, count, d]``
        """
        return _Largest.apply(x, self, count)[0]


class _Largest(torch.autograd.Function):
    """Returns the values, and for each the entry of the matrix that it came by."""

    @staticmethod
    def forward(x: Tensor, graph: LargestNeighbors, count: int) -> tuple[Tensor, Tensor]:
        nodes, width = x.shape
        values, col = _padded(graph.matrix)
        out = x.new_zeros(nodes, count, width)
        chosen = values.new_full((nodes, count, width), len(values) - 1, dtype=torch.int32)
        for rows, entries in graph.tables:
            reached = x[col[entries]].mul_(values[entries, None]).clamp_(min=0)
            kept = min(count, entries.size(1))
            top, place = reached.sort(dim=1, descending=True)
            out[rows, :kept] = top[:, :kept]
            found = entries[:, :, None].expand_as(place).gather(1, place[:, :kept])
            chosen[rows, :kept] = found.int()
        return out, chosen

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _, ctx.graph, _ = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        out, chosen = ctx.saved_tensors
        values, col = _padded(ctx.graph.matrix)
        chosen = chosen.flatten(0, 1).long()
        grad = torch.where(out > 0, grad, 0).flatten(0, 1) * values[chosen]
        zeros = grad.new_zeros(out.shape[0], out.shape[2])
        return zeros.scatter_add(0, col[chosen], grad), None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, graph: LargestNeighbors, count: int
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        # Features are ranked one by one, so lanes are nothing but more features.
        assert in_dims[0] is not None  # the only tensor there is
        lanes = x.movedim(in_dims[0], 1).flatten(1)
        out, chosen = (
            result.unflatten(2, (info.batch_size, -1)).movedim(2, 0)
            for result in _Largest.apply(lanes, graph, count)
        )
        return (out, chosen), (0, 0)


def _padded(matrix: SparseMatrix) -> tuple[Tensor, Tensor]:
    """Values and columns of the entries, and at the end those of an empty place."""
    values, col = matrix.values, matrix.pattern.col.long()
    return torch.cat([values, values.new_zeros(1)]), torch.cat([col, col.new_zeros(1)])
