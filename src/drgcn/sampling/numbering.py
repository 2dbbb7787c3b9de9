"""Numbers for nodes in the order in which a sampler meets them."""

from __future__ import annotations

import torch
from torch import Tensor


def number_nodes(nodes: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """Appends the nodes that are new, and says where each found node stands.

    The cost depends on how many nodes are given, never on how many the graph has: there is no
    table of all nodes that each worker would have to hold.

    Args:
        nodes: Nodes met so far; of a node that occurs twice, the first place counts.
        found: Nodes met now, in any number.

    Returns:
        ``nodes`` and behind them the new ones in increasing order; and the places of ``found``.
    """
    distinct, index = torch.unique(torch.cat([nodes, found]), return_inverse=True)
    known = nodes.numel()
    place = torch.full_like(distinct, known)
    order = torch.arange(known, device=nodes.device)
    place.scatter_reduce_(0, index[:known], order, "amin")
    new = place == known
    place = torch.where(new, known - 1 + new.cumsum(0), place)
    return torch.cat([nodes, distinct[new]]), place[index[known:]]
