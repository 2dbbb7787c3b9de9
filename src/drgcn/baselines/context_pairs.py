"""Pairs of nodes that Planetoid wants to predict from each other."""

from __future__ import annotations

import torch
from torch import Tensor


def window_pairs(walks: Tensor, window: int) -> Tensor:
    """All pairs in a walk at a distance of at most ``window``, a node with itself included.

    Args:
        walks: Nodes ``[walks, length]``.
        window: Greatest distance.

    Returns:
        Centre and context of each pair ``[2, pairs]``.
    """
    place = torch.arange(walks.size(1))
    centre, context = ((place[:, None] - place).abs() <= window).nonzero().unbind(dim=1)
    return torch.stack([walks[:, centre].flatten(), walks[:, context].flatten()])


def label_pairs(
    nodes: Tensor, y: Tensor, count: int, negatives: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Labelled nodes drawn uniformly, each with a node of its class and some of other classes.

    Args:
        nodes: Labelled nodes, of two classes or more.
        y: Their classes.
        count: How many pairs to draw.
        negatives: How many nodes of other classes to draw for each.
        generator: Where the draws come from.

    Returns:
        Centre and context of each pair ``[2, count]``, which may be the same node, and the wrong
        contexts ``[count, negatives]``.
    """
    order = y.argsort(stable=True)
    sizes = y.bincount()
    begins = sizes.cumsum(0) - sizes
    centre = torch.randint(len(nodes), (count,), generator=generator)
    begin, size = begins[y[centre]], sizes[y[centre]]
    drawn = torch.rand(count, 1 + negatives, generator=generator, dtype=torch.float64)
    context = order[begin + (drawn[:, 0] * size).long()]
    # Around the ring of sorted labels, starting behind the own class.
    others = (drawn[:, 1:] * (len(y) - size)[:, None]).long()
    wrong = order[((begin + size)[:, None] + others) % len(y)]
    return torch.stack([nodes[centre], nodes[context]]), nodes[wrong]
