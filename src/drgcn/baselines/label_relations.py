"""The rounds of iterative classification."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

Numbers = npt.NDArray[np.float64]
Nodes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelRelations:
    """Scores of a node that are linear in the labels of its neighbours.

    Attributes:
        neighbours: How much each neighbour counts.
        own: The part of the scores that never changes ``[nodes, classes]``.
        of_label: What a neighbour of each class adds to them ``[classes, classes]``.
        labels: The first guess ``[nodes]``.
    """

    neighbours: sparse.csr_array
    own: Numbers
    of_label: Numbers
    labels: Nodes

    def one_by_one(self, order: Nodes, rounds: int) -> Nodes:
        """Labels after going over the nodes of ``order``; each change counts at once."""
        labels = self.labels.copy()
        first, col = self.neighbours.indptr, self.neighbours.indices
        value = self.neighbours.data
        for _ in range(rounds):
            for node in order:
                begin, end = first[node], first[node + 1]
                part = value[begin:end] @ self.of_label[labels[col[begin:end]]]
                labels[node] = (self.own[node] + part).argmax()
        return labels

    def at_once(self, nodes: Nodes, rounds: int) -> Nodes:
        """Labels after rounds in which all ``nodes`` change together."""
        labels = self.labels.copy()
        for _ in range(rounds):
            labels[nodes] = self._scores(labels)[nodes].argmax(axis=1)
        return labels

    def scores(self, labels: Nodes) -> torch.Tensor:
        """Scores of which each node's label has the highest.

        Labels of the last round count, not what neighbours have come to say since.
        """
        scores = self._scores(labels)
        scores = scores - scores.max(axis=1, keepdims=True)
        scores[np.arange(len(labels)), labels] = 1.0
        return torch.from_numpy(scores)

    def _scores(self, labels: Nodes) -> Numbers:
        return self.own + (self.neighbours @ np.eye(len(self.of_label))[labels]) @ self.of_label
