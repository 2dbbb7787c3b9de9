"""The nodes that send to a set of rows, each once: what a layer is sampled from."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.sampling.csr_graph import CSRGraph

# One place per node, instead of sorting the entries, while that is not much more room.
_NODES_PER_ENTRY = 8


@dataclass(frozen=True, eq=False)
class Candidates:
    r"""Candidates of one layer, in arrays whose length does not depend on the rows.

    Nothing here waits for the device, so a step that samples can be recorded as a CUDA graph,
    and :func:`torch.vmap` runs one lane per seed.

    Attributes:
        node: The candidates ``[c]``; places that are not used hold some node.
        squares: Squared norm of each candidate's column, over the given rows,
            :math:`\sum_{v} a_{vu}^2` ``[c]``; zero where a place is not used.
    """

    node: Tensor
    squares: Tensor

    @classmethod
    def of(cls, graph: CSRGraph, rows: Tensor, capacity: int | None = None) -> Candidates:
        """Everybody who sends to some rows.

        Args:
            graph: Who sends to whom; entries of one row must be distinct.
            rows: The receivers; one listed twice counts twice.
            capacity: Room for so many entries of those rows. (default: what they have)
        """
        start = graph.rowptr[rows].long()
        degree = graph.rowptr[rows + 1].long() - start
        ends = degree.cumsum(0)
        if capacity is None:
            capacity = int(ends[-1]) if ends.numel() else 0
        place = torch.arange(capacity, device=rows.device)
        # The row of a place is the number of rows that end at or before it.
        passed = torch.zeros(capacity + 1, dtype=torch.int64, device=rows.device)
        passed = passed.scatter_add(0, ends.clamp(max=capacity), torch.ones_like(ends))
        row = passed[:-1].cumsum(0).clamp(max=max(len(rows) - 1, 0))
        listed = place < ends[-1:]
        entry = torch.where(listed, start[row] + place - (ends[row] - degree[row]), 0)
        col = graph.col[entry].long()
        if graph.value is None:
            square = listed.to(torch.float64)
        else:
            square = torch.where(listed, graph.value[entry].to(torch.float64).square(), 0)
        if graph.num_cols <= _NODES_PER_ENTRY * capacity:
            node = torch.arange(graph.num_cols, device=rows.device)
            return cls(node, square.new_zeros(graph.num_cols).scatter_add(0, col, square))
        # Beyond that, the work depends on the entries alone, however many nodes there are.
        col, order = torch.where(listed, col, graph.num_cols).sort()
        first = torch.cat([col.new_ones(1), (col.diff() != 0).long()])
        number = first.cumsum(0) - 1
        node = torch.zeros_like(col).scatter(0, number, col).clamp(max=graph.num_cols - 1)
        return cls(node, torch.zeros_like(square).scatter_add(0, number, square[order]))
