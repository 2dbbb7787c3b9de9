"""Which candidates a user has clicked already."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.sampling import CSRGraph


def is_seen(graph: CSRGraph, rows: Tensor, items: Tensor) -> Tensor:
    """Whether row ``rows[q]`` of the graph lists ``items[q, j]``: booleans ``[q, j]``.

    By bisection in all rows at once; each row must be sorted, as a click graph's are. An item of
    -1 is listed nowhere.
    """
    if not graph.num_entries or not items.numel():
        return torch.zeros_like(items, dtype=torch.bool)
    start, end = graph.rowptr[rows].long()[:, None], graph.rowptr[rows + 1].long()[:, None]
    low, high = start.expand_as(items), end.expand_as(items)
    last = graph.num_entries - 1
    for _ in range(int((end - start).max()).bit_length()):
        middle = low + ((high - low) >> 1)
        before = (middle < high) & (graph.col[middle.clamp(max=last)] < items)
        low, high = torch.where(before, middle + 1, low), torch.where(before, high, middle)
    return (low < end) & (graph.col[low.clamp(max=last)] == items)
