"""Walks over a graph, all at once."""

from __future__ import annotations

import torch
from scipy import sparse
from torch import Tensor


def random_walks(
    adjacency: sparse.csr_array, starts: Tensor, length: int, generator: torch.Generator
) -> Tensor:
    """Nodes visited by walks that go to a uniformly drawn neighbour at every step.

    Args:
        adjacency: Who is whose neighbour.
        starts: First node of each walk ``[walks]``.
        length: Number of nodes in a walk, the first included.
        generator: Where the draws come from.

    Returns:
        Nodes ``[walks, length]``. A walk that starts at a node without neighbours stays there.
    """
    first = torch.from_numpy(adjacency.indptr).long()
    neighbours = torch.from_numpy(adjacency.indices).long()
    degrees = first.diff()
    walks = torch.empty(len(starts), length, dtype=torch.long)
    walks[:, 0] = now = starts
    for step in range(1, length):
        drawn = torch.rand(len(starts), generator=generator, dtype=torch.float64)
        place = first[now] + (drawn * degrees[now]).long()
        alone = degrees[now] == 0
        # A place beyond the last entry is read only for nodes that stay where they are.
        now = torch.where(alone, now, neighbours[place.clamp(max=len(neighbours) - 1)])
        walks[:, step] = now
    return walks
