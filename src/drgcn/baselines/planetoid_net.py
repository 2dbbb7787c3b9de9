"""The network of Planetoid: two small softmax layers, and one over both."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.baselines.seen_graph import SeenGraph


class PlanetoidNet:
    """Classes out of features and vectors; vectors are free, or a layer over features.

    As in the authors' code, features and vectors first give class probabilities each on their
    own, both with a loss, and a last layer decides between them.

    Args:
        seen: The graph.
        channels: Size of a vector.
        free: Whether each node has a vector of its own.
        generator: Where initial weights come from.
    """

    def __init__(
        self, seen: SeenGraph, channels: int, free: bool, generator: torch.Generator
    ) -> None:
        features, classes = seen.x.size(1), seen.classes

        def glorot(rows: int, columns: int) -> Tensor:
            weight = torch.empty(rows, columns)
            return torch.nn.init.xavier_uniform_(weight, generator=generator).requires_grad_()

        def zeros(count: int) -> Tensor:
            return torch.zeros(count, requires_grad=True)

        self._x = seen.x
        self._free = free
        if free:
            drawn = 0.01 * torch.randn(seen.nodes, channels, generator=generator)
            self._embedding = [drawn.requires_grad_()]
        else:
            self._embedding = [glorot(features, channels), zeros(channels)]
        self.context_weight = glorot(seen.nodes, channels)
        self._from_x = [glorot(features, classes), zeros(classes)]
        self._from_vector = [glorot(channels, classes), zeros(classes)]
        self._last = [glorot(2 * classes, classes), zeros(classes)]

    @property
    def context_parameters(self) -> list[Tensor]:
        """What is trained to predict contexts."""
        return [*self._embedding, self.context_weight]

    @property
    def class_parameters(self) -> list[Tensor]:
        """What is trained to predict classes; vectors are trained for both."""
        return [*self._embedding, *self._from_x, *self._from_vector, *self._last]

    def embed(self, nodes: Tensor) -> Tensor:
        """Vectors of nodes ``[count, channels]``."""
        if self._free:
            return F.embedding(nodes, self._embedding[0])
        weight, bias = self._embedding
        return F.relu(self._x[nodes] @ weight + bias)

    def class_loss(self, nodes: Tensor, y: Tensor) -> Tensor:
        """Cross-entropies of both parts and of the whole, each a mean over nodes."""
        own, vector, whole = self._logits(nodes)
        return F.cross_entropy(own, y) + F.cross_entropy(vector, y) + F.cross_entropy(whole, y)

    @torch.no_grad()
    def scores(self, nodes: Tensor) -> Tensor:
        """Logarithms of class probabilities ``[count, classes]``."""
        return self._logits(nodes)[2].log_softmax(dim=1)

    def state(self) -> list[Tensor]:
        """A copy of all that decides classes."""
        return [one.detach().clone() for one in self.class_parameters]

    @torch.no_grad()
    def restore(self, state: list[Tensor]) -> None:
        """Goes back to a copy."""
        for one, kept in zip(self.class_parameters, state, strict=True):
            one.copy_(kept)

    def _logits(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        own = self._x[nodes] @ self._from_x[0] + self._from_x[1]
        vector = self.embed(nodes) @ self._from_vector[0] + self._from_vector[1]
        both = torch.cat([own.softmax(dim=1), vector.softmax(dim=1)], dim=1)
        return own, vector, both @ self._last[0] + self._last[1]
