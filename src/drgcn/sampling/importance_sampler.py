"""FastGCN's sampler: the same nodes for all rows of a batch, by the norm of their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.sampling.candidates import Candidates
from drgcn.sampling.csr_graph import CSRGraph
from drgcn.sampling.drawing import Draw, draw_with_replacement, draw_without_replacement
from drgcn.sampling.layer_sample import LayerSample


@dataclass(frozen=True, eq=False)
class ImportanceSampler:
    r"""Draws the senders of a layer with probability :math:`q(u) \propto \|\mathbf{A}_{:u}\|^p`,
    as in `"FastGCN: Fast Learning with Graph Convolutional Networks via Importance Sampling"
    <https://arxiv.org/abs/1801.10247>`_.

    Attributes:
        graph: The propagation matrix of the training graph.
        weight: :math:`q`, one per node.
        count: Nodes drawn.
        candidates: ``"rows"``: only nodes that send to the given rows; ``"all"``: any node.
        replace: Draw independently, or every node at most once.
        renormalize: Divide by the probability that was drawn with. If not, by that over all
            nodes, whatever the candidates, as the original does: a scale that changes from
            batch to batch.
    """

    graph: CSRGraph
    weight: Tensor
    count: int
    candidates: Literal["rows", "all"] = "rows"
    replace: bool = False
    renormalize: bool = True

    @classmethod
    def of(
        cls,
        graph: CSRGraph,
        count: int,
        *,
        power: Literal[1, 2] = 1,
        candidates: Literal["rows", "all"] = "rows",
        replace: bool = False,
        renormalize: bool = True,
    ) -> ImportanceSampler:
        """A sampler for a propagation matrix.

        Args:
            graph: The matrix.
            count: Nodes to draw.
            power: Draw by the norm of a column, or by its square.
            candidates: See :class:`ImportanceSampler`.
            replace: See :class:`ImportanceSampler`.
            renormalize: See :class:`ImportanceSampler`.
        """
        if count < 1:
            raise InputError(f"Expected to sample at least one node; found {count}.")
        if power not in (1, 2):
            raise InputError(f"Expected power 1 (norm) or 2 (squared norm); found {power}.")
        if candidates not in ("rows", "all"):
            raise InputError(f"Expected candidates 'rows' or 'all'; found {candidates!r}.")
        # NOTE[PAPER] FastGCN's text has the squared norm, its code the norm, and the paper
        # does not say; the code made the published numbers.
        squares = torch.zeros(graph.num_cols, dtype=torch.float64, device=graph.col.device)
        values = squares.new_ones(graph.num_entries) if graph.value is None else graph.value
        squares = squares.index_add(0, graph.col.long(), values.to(torch.float64).square())
        weight = squares if power == 2 else squares.sqrt()
        return cls(graph, weight / weight.sum(), count, candidates, replace, renormalize)

    def sample(self, rows: Tensor, *, distinct: bool = True) -> LayerSample:
        """One layer for some rows of the matrix; ``distinct`` if no row is listed twice."""
        if self.candidates == "all":
            nodes = torch.arange(self.graph.num_cols, device=rows.device)
            weight = self.weight
        else:
            found = Candidates.of(self.graph, rows, self.graph.most_entries(len(rows), distinct))
            nodes, weight = found.node, self.weight[found.node] * (found.squares > 0)
        draw = draw_with_replacement if self.replace else draw_without_replacement
        drawn = draw(weight, self.count)
        if not self.renormalize:
            # NOTE[DIFF] Off by default: FastGCN divides by q over all nodes although it draws
            # among the candidates, which shrinks or stretches every batch by another factor.
            chance = self.count * weight[drawn.index]
            drawn = Draw(drawn.index, torch.where(chance > 0, 1 / chance, 0.0), drawn.real)
        return LayerSample.drawn(self.graph, rows, nodes, drawn)

    def to(self, device: torch.device | str) -> ImportanceSampler:
        """The same sampler on another device."""
        return ImportanceSampler(
            self.graph.to(device),
            self.weight.to(device),
            self.count,
            self.candidates,
            self.replace,
            self.renormalize,
        )
