"""One sampled layer: a few columns of the propagation matrix that stand for all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.sampling.csr_graph import CSRGraph
from drgcn.sampling.drawing import Draw


@dataclass(frozen=True, eq=False)
class LayerSample:
    r"""Nodes that send, and with what weight to whom.

    ``matrix @ h[nodes]`` has the expectation ``A[rows] @ h``.

    Attributes:
        nodes: The nodes drawn ``[n]``; one drawn twice is listed twice.
        matrix: Weights ``[rows, n]``: entries of the propagation matrix, each times the factor
            of its draw.
    """

    nodes: Tensor
    matrix: Tensor

    @classmethod
    def of(cls, graph: CSRGraph, rows: Tensor, nodes: Tensor, factor: Tensor) -> LayerSample:
        """The columns of some nodes, each times a factor."""
        entries = lookup(graph, rows, nodes)
        return cls(nodes, entries * factor.to(entries.dtype))

    @classmethod
    def drawn(cls, graph: CSRGraph, rows: Tensor, nodes: Tensor, draw: Draw) -> LayerSample:
        """The columns of those ``nodes`` that were drawn."""
        return cls.of(graph, rows, nodes[draw.index], draw.factor)


def lookup(graph: CSRGraph, rows: Tensor, cols: Tensor) -> Tensor:
    """The entries at all crossings of some rows with some columns, zero where there is none.

    By bisection in every row at once, which takes as many looks as the longest row has binary
    digits, and no more memory than the result.
    """
    last = max(graph.num_entries - 1, 0)
    low = graph.rowptr[rows][:, None].expand(-1, cols.numel())
    end = graph.rowptr[rows + 1][:, None]
    high = end.expand_as(low)
    wanted = cols.to(graph.col.dtype)
    for _ in range(graph.longest_row.bit_length()):
        middle = (low + high) >> 1
        before = (graph.col[middle.clamp(max=last)] < wanted) & (middle < high)
        low, high = torch.where(before, middle + 1, low), torch.where(before, high, middle)
    place = low.clamp(max=last)
    found = (low < end) & (graph.col[place] == wanted)
    if graph.value is None:
        return found.to(torch.get_default_dtype())
    return torch.where(found, graph.value[place], 0)
