"""LADIES' sampler: like FastGCN's, with the columns' norms over the rows of the batch alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.sampling.candidates import Candidates
from drgcn.sampling.csr_graph import CSRGraph
from drgcn.sampling.drawing import draw_with_replacement, draw_without_replacement
from drgcn.sampling.layer_sample import LayerSample


@dataclass(frozen=True, eq=False)
class LayerDependentSampler:
    r"""Draws the senders of a layer with probability
    :math:`q(u) \propto \sum_{v \in \mathrm{rows}} a_{vu}^2`, as in `"Layer-Dependent Importance
    Sampling for Training Deep and Large Graph Convolutional Networks"
    <https://arxiv.org/abs/1911.07323>`_.

    Attributes:
        graph: The propagation matrix of the training graph.
        count: Nodes drawn.
        replace: Draw independently, or every node at most once.
        normalize_rows: Make every row of the sampled matrix sum to what the whole row does, as
            the original does: less variance, and no longer exactly unbiased.
    """

    graph: CSRGraph
    count: int
    replace: bool = False
    normalize_rows: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"Expected to sample at least one node; found {self.count}.")

    def sample(self, rows: Tensor, *, distinct: bool = True) -> LayerSample:
        """One layer for some rows of the matrix; ``distinct`` if no row is listed twice."""
        found = Candidates.of(self.graph, rows, self.graph.most_entries(len(rows), distinct))
        draw = draw_with_replacement if self.replace else draw_without_replacement
        drawn = draw(found.squares, self.count)
        layer = LayerSample.drawn(self.graph, rows, found.node, drawn)
        if not self.normalize_rows:
            return layer
        got = layer.matrix.sum(1, keepdim=True)
        scale = torch.where(got == 0, 0, self._row_sums(rows)[:, None] / got)
        return LayerSample(layer.nodes, layer.matrix * scale, layer.real)

    def to(self, device: torch.device | str) -> LayerDependentSampler:
        """The same sampler on another device."""
        graph = self.graph.to(device)
        return LayerDependentSampler(graph, self.count, self.replace, self.normalize_rows)

    def _row_sums(self, rows: Tensor) -> Tensor:
        return self.graph.row_sum[rows]
