"""Neighbours of neighbours as tables of fixed shape: the fast way to train on samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.sampling.csr_graph import CSRGraph
from drgcn.sampling.neighbors import draw_neighbors


@dataclass(frozen=True, eq=False)
class NeighborTree:
    """Nodes, neighbours drawn for them, neighbours drawn for those, and so on.

    Every place draws on its own: a node that occurs twice has two sets of neighbours. Nothing is
    renumbered and shapes are fixed, so a step of training is a gather and a product per level,
    runs under :func:`torch.vmap`, and fits into a CUDA graph.

    Attributes:
        nodes: Node ids of each level: ``[B]``, ``[B, k1]``, ``[B, k1, k2]``, ...; zero where there
            is no neighbour.
        masks: Which of them are real, in the same shapes.
    """

    nodes: tuple[Tensor, ...]
    masks: tuple[Tensor, ...]

    @classmethod
    def sample(
        cls, graph: CSRGraph, nodes: Tensor, fan_outs: Sequence[int], replace: bool = False
    ) -> NeighborTree:
        """Draws neighbours of ``nodes``, then of what was drawn.

        Args:
            graph: Who sends to whom.
            nodes: Where to begin ``[B]``.
            fan_outs: Neighbours of a node at each level, ``(25, 10)`` for two levels.
            replace: See :func:`~drgcn.sampling.draw_neighbors`. (default: no)
        """
        if len(fan_outs) > 1 and graph.num_rows != graph.num_cols:
            raise InputError(
                f"Expected a square graph for {len(fan_outs)} levels; found {graph.num_rows} rows "
                f"and {graph.num_cols} columns."
            )
        levels = [nodes.long()]
        masks = [torch.ones_like(nodes, dtype=torch.bool)]
        for count in fan_outs:
            place, real = draw_neighbors(graph, levels[-1], count, replace=replace)
            real = real & masks[-1].unsqueeze(-1)
            # An empty graph has no entry that a place without a neighbour could point to.
            found = graph.col[place].long() if graph.num_entries else place
            levels.append(torch.where(real, found, 0))
            masks.append(real)
        return cls(tuple(levels), tuple(masks))

    def mean(self, values: Tensor) -> Tensor:
        """For each place of the level above, the mean over its neighbours; zero if it has none.

        Args:
            values: One vector for each place of a level, ``[B, k1, ..., features]``, in finite
                numbers. Which level it is follows from the number of axes.

        Returns:
            ``[B, ..., features]``, with one axis less.
        """
        level = values.dim() - 1 - self.nodes[0].dim()
        if not 0 < level < len(self.masks) or values.shape[:-1] != self.masks[level].shape:
            raise InputError(
                f"Expected vectors for one of the levels "
                f"{[list(mask.shape) for mask in self.masks[1:]]}; found shape "
                f"{list(values.shape)}."
            )
        mask = self.masks[level]
        weight = mask.to(values.dtype) / mask.sum(-1, keepdim=True).clamp(min=1)
        # A product reads the values once; masking them first would copy them.
        return (weight.unsqueeze(-2) @ values).squeeze(-2)
