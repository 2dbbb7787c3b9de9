"""AS-GCN's sampler: which nodes to draw is learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.sampling.candidates import Candidates
from drgcn.sampling.csr_graph import CSRGraph
from drgcn.sampling.drawing import draw_with_replacement
from drgcn.sampling.layer_sample import LayerSample


@dataclass(frozen=True, eq=False)
class AdaptiveSampler:
    r"""Draws the senders of a layer with probability

    .. math::
        q(u) \propto \Bigl(\sum_{v} a_{vu}^2\Bigr)^{1/2} (\mathrm{ReLU}(t + k_u) + 1)
        (\mathrm{ReLU}(k_u) + 1), \quad t = \sum_v t_v,

    from scores :math:`t_v` of the rows and :math:`k_u` of the candidates that the model learns,
    as the code of `"Adaptive Sampling Towards Fast Graph Representation Learning"
    <https://arxiv.org/abs/1809.05343>`_ does. Draws are independent, and no gradient flows
    through them: the scores learn through the weights of the layer and the variance term.

    Attributes:
        graph: The propagation matrix of the training graph.
        count: Draws.
        drop_duplicates: Let a node count once however often it was drawn, as the original does,
            which makes every sum too small.
    """

    graph: CSRGraph
    count: int
    drop_duplicates: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"Expected to sample at least one node; found {self.count}.")

    def sample(
        self,
        rows: Tensor,
        row_score: Tensor,
        candidate_score: Callable[[Tensor], Tensor],
        *,
        distinct: bool = True,
    ) -> LayerSample:
        """One layer for some rows of the matrix.

        Args:
            rows: The receivers.
            row_score: Sum :math:`t` of their scores.
            candidate_score: Scores :math:`k_u` of given nodes.
            distinct: Whether no row is listed twice.
        """
        found = Candidates.of(self.graph, rows, self.graph.most_entries(len(rows), distinct))
        k = candidate_score(found.node).detach().to(torch.float64)
        t = row_score.detach().to(torch.float64)
        weight = found.squares.sqrt() * (torch.relu(t + k) + 1) * (torch.relu(k) + 1)
        draw = draw_with_replacement(weight, self.count)
        layer = LayerSample.drawn(self.graph, rows, found.node, draw)
        if self.drop_duplicates:
            # NOTE[DIFF] Off by default: AS-GCN gives all entries of a node that was drawn twice
            # to its first draw, and still divides by the number of draws.
            layer = LayerSample(layer.nodes, layer.matrix * _first(layer.nodes))
        return layer

    def to(self, device: torch.device | str) -> AdaptiveSampler:
        """The same sampler on another device."""
        return AdaptiveSampler(self.graph.to(device), self.count, self.drop_duplicates)


def _first(nodes: Tensor) -> Tensor:
    """Whether no earlier place holds the same node."""
    ordered, order = nodes.sort(stable=True)
    first = torch.cat([ordered.new_ones(1), (ordered.diff() != 0).long()])
    return torch.zeros_like(first).scatter(0, order, first)
