"""Neighbours of neighbours in a graph with two sides, in tables of fixed shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.model.systematic_draw import draw_systematic
from drgcn.sampling.graph import CSRGraph
from drgcn.streams import call_key

Side = Literal["user", "item"]


def other(side: Side) -> Side:
    """The side that a side's neighbours are on."""
    return "item" if side == "user" else "user"


def rows_of(graph: ClickGraph, side: Side) -> CSRGraph:
    """The neighbours of a side's nodes, row by row."""
    return graph.by_user if side == "user" else graph.by_item


@dataclass(frozen=True, eq=False)
class ClickTree:
    """Roots of one side, neighbours drawn for them, neighbours drawn for those, and so on.

    Attributes:
        side: The side of the roots; levels take turns.
        levels: Nodes of each level, ``[B]``, ``[B, k1]``, ``[B, k1, k2]``, ...; the number of
            nodes of their side where there is nobody.
        sizes: Number of nodes of the roots' side and of the other.
    """

    side: Side
    levels: tuple[Tensor, ...]
    sizes: tuple[int, int]

    @classmethod
    def draw(
        cls,
        graph: ClickGraph,
        side: Side,
        roots: Tensor,
        fan_outs: Sequence[int],
        key: Tensor,
        *,
        partners: Tensor | None = None,
        first: int = 0,
    ) -> ClickTree:
        """Draws a tree for each root.

        Args:
            graph: Who clicked what.
            side: The side of the roots.
            roots: Where to begin ``[B]``.
            fan_outs: Neighbours of a node at each level.
            key: 64-bit key of this draw.
            partners: For each root the node its click leads to ``[B]``. That very edge is taken
                out of the tree wherever it was drawn: it is what the model is to predict.
            first: The number of the first root in the batch of all ranks.
        """
        levels, at = [roots], side
        for level, count in enumerate(fan_outs, 1):
            above = levels[-1]
            # Rows are numbered through the whole batch, so that ranks draw as one would alone.
            start = first * (above.numel() // max(roots.numel(), 1))
            rows = rows_of(graph, at)
            drawn = draw_systematic(rows, above, count, call_key(key, level), start)
            if partners is not None and level != 2:  # at two, partners are gone from above
                shape = [-1] + [1] * level
                mine, theirs = roots.view(shape), partners.view(shape)
                if at != side:
                    mine, theirs = theirs, mine
                is_target = (above.unsqueeze(-1) == mine) & (drawn == theirs)
                drawn = drawn.masked_fill(is_target, rows.num_cols)
            levels.append(drawn)
            at = other(at)
        own = rows_of(graph, side)
        return cls(side, tuple(levels), (own.num_rows, own.num_cols))

    def followed_by(self, tree: ClickTree) -> ClickTree:
        """The roots of both, one after the other, with what is below them."""
        levels = zip(self.levels, tree.levels, strict=True)
        return ClickTree(self.side, tuple(torch.cat(pair) for pair in levels), self.sizes)

    def side_of(self, level: int) -> Side:
        """The side of a level's nodes."""
        return self.side if level % 2 == 0 else other(self.side)

    def real(self, level: int) -> Tensor:
        """Where there is somebody, in the shape of the level."""
        return self.levels[level] < self.sizes[level % 2]
