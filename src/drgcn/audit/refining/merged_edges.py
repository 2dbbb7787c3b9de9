"""The edges of a graph of which nodes were merged or dropped, every one accounted for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from drgcn.audit.graph_view import GraphView
from drgcn.data.assemble import undirected


@dataclass(frozen=True)
class EdgeAccount:
    """Where the undirected edges of the old graph are.

    Attributes:
        before: Edges of the old graph.
        after: Edges of the new graph.
        inside: Edges between nodes that are one now.
        repeated: Edges that now join the same two nodes as another one.
        dropped: Edges of nodes that were dropped.
    """

    before: int
    after: int
    inside: int
    repeated: int
    dropped: int


def merge_edges(
    view: GraphView, place: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], EdgeAccount]:
    """The edges between new nodes, in both directions, and where the others went.

    Args:
        view: The old graph.
        place: The new number of each old node, -1 where it was dropped.
    """
    both = undirected(view.pairs, view.nodes).edge_index
    once = both[:, both[0] < both[1]]
    ends = place[once]
    there = (ends >= 0).all(axis=0)
    inside = there & (ends[0] == ends[1])
    after = undirected(ends[:, there], int(place.max()) + 1).edge_index
    left = after.shape[1] // 2
    account = EdgeAccount(
        before=once.shape[1],
        after=left,
        inside=int(inside.sum()),
        repeated=int((there & ~inside).sum()) - left,
        dropped=int((~there).sum()),
    )
    return after, account
