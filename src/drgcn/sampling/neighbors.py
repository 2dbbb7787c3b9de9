"""Senders of given nodes, drawn at random: in tables of fixed shape, or as a list."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.sampling.csr_graph import CSRGraph


def draw_neighbors(
    graph: CSRGraph, nodes: Tensor, count: int, *, replace: bool = False
) -> tuple[Tensor, Tensor]:
    """Up to ``count`` entries of each node's row, every set of that size with the same chance.

    Shapes depend on arguments alone and nothing waits for the device, so that it can be captured
    in a CUDA graph and run under :func:`torch.vmap` with ``nodes`` batched. The work for a row
    grows with ``count`` and not with the row. All chance comes from one call of ``torch.rand``.

    Args:
        graph: Who sends to whom.
        nodes: Rows, of any shape, all of them in the graph (this is not looked at).
        count: How many to draw, at least one.
        replace: Draw ``count`` times, and perhaps the same entry again. Otherwise a row with no
            more than ``count`` entries gives them all. (default: no)

    Returns:
        Places of the entries in ``graph.col``, of shape ``[*nodes.shape, count]``, and which of
        them are real. The others hold zero.
    """
    if count < 1:
        raise InputError(f"Expected at least one neighbour to draw; found {count}.")
    nodes = nodes.long()
    begin = graph.rowptr[nodes].long().unsqueeze(-1)
    degree = graph.rowptr[nodes + 1].long().unsqueeze(-1) - begin
    # Double precision: single has fewer numbers than a large row has entries.
    chance = torch.rand(*nodes.shape, count, dtype=torch.float64, device=nodes.device)
    place = torch.arange(count, device=nodes.device)
    if replace:
        drawn = (chance * degree).long()
        real = (degree > 0).expand_as(drawn)
    else:
        drawn = torch.where(degree > count, _distinct(chance, degree - count + place), place)
        real = place < degree
    return torch.where(real, begin + drawn, 0), real


def gather_neighbors(
    graph: CSRGraph, nodes: Tensor, count: int, *, replace: bool = False
) -> tuple[Tensor, Tensor]:
    """The same draws as a list without gaps; its length depends on the graph, so eager only.

    Args:
        graph: Who sends to whom.
        nodes: Rows ``[nodes]``.
        count: How many to draw; ``-1`` for all.
        replace: As in :func:`draw_neighbors`; without effect if all are asked for.

    Returns:
        Places of the entries in ``graph.col``, and for each the position in ``nodes`` of the node
        whose row it is in, in order.
    """
    begin = graph.rowptr[nodes].long()
    degree = graph.rowptr[nodes + 1].long() - begin
    if count < 0:
        taken, chosen = degree, torch.zeros_like(degree, dtype=torch.bool)
    elif replace:
        taken, chosen = count * (degree > 0), (degree > 0) & (count > 0)
    else:
        taken, chosen = degree.clamp(max=count), (degree > count) & (count > 0)
    receiver = torch.repeat_interleave(taken)
    step = torch.arange(receiver.numel(), device=nodes.device)
    place = (begin - (taken.cumsum(0) - taken))[receiver] + step  # whole rows, from their start
    if bool(chosen.any()):  # only rows that have more than is asked for need to draw
        drawn, _ = draw_neighbors(graph, nodes[chosen], count, replace=replace)
        place[chosen[receiver]] = drawn.flatten()
    return place, receiver


def _distinct(chance: Tensor, last: Tensor) -> Tensor:
    """Floyd's algorithm: the i-th draw is from ``0 ... last[i]``, and is ``last[i]`` if it was
    drawn before."""
    drawn = (chance * (last + 1)).long()
    for i in range(1, drawn.size(-1)):
        before = (drawn[..., :i] == drawn[..., i : i + 1]).any(-1)
        drawn[..., i] = torch.where(before, last[..., i], drawn[..., i])
    return drawn
