"""Iterative classification: logistic regression on features and labels of neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch_geometric.data import Data

from drgcn.baselines.base import (
    Numbers,
    Prediction,
    SeenGraph,
    expect_at_least,
    expect_positive,
    logistic_regression,
    seeded,
)
from drgcn.errors import InputError

Nodes = npt.NDArray[np.int64]

_AGGREGATES = ("count", "share")


@dataclass(frozen=True)
class IterativeClassification:
    """ICA of Lu and Getoor (2003), "Link-based Classification", as Kipf and Welling (2017)
    ran it for the number that is quoted: a logistic regression on a node's own
    features guesses all labels; a second one, on features and the labels of neighbours, is
    trained with these guesses and then goes over all nodes without a label, one by one in a drawn
    order, ten times. Training nodes keep their labels throughout.

    Settings are chosen once for a graph, as they did: by the validation accuracy that comes of
    changing all labels at once in each round, which needs no order.

    Attributes:
        rounds: How often all nodes are gone over: 10, Kipf and Welling.
        inverse_penalties: Values of scikit-learn's ``C`` to choose from by validation accuracy,
            as they did, from a list they do not give.
        aggregates: How neighbours' labels are summed up, chosen likewise: by their ``count``, or
            by the ``share`` of each class (Kipf and Welling's two, of Sen et al., 2008).
    """

    name: ClassVar[str] = "ica"
    row: ClassVar[str] = "ICA"
    scaling: ClassVar[str] = "none"
    deterministic: ClassVar[bool] = False
    follows_data: ClassVar[bool] = False

    rounds: int = 10
    inverse_penalties: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
    aggregates: tuple[str, ...] = _AGGREGATES

    def __post_init__(self) -> None:
        expect_at_least(0, self, "rounds")
        expect_positive(self, "inverse_penalties")
        if not self.aggregates or set(self.aggregates) - set(_AGGREGATES):
            raise InputError(
                f"Expected aggregates out of {', '.join(_AGGREGATES)}; found "
                f"{self.aggregates!r}. Use one or both."
            )

    def predict(self, data: Data, seed: int = 0) -> Prediction:
        """See :class:`~drgcn.baselines.Baseline`."""
        seen = SeenGraph.of(data)
        order = torch.randperm(seen.nodes, generator=seeded(seed)).numpy()
        order = order[~np.isin(order, seen.train.numpy())]
        x = sparse.csr_array(seen.x.double().numpy())
        best, chosen = -1.0, (0.0, "")
        for penalty in self.inverse_penalties:
            for aggregate in self.aggregates:
                relations = self._relations(seen, x, penalty, aggregate)
                labels = relations.at_once(order, self.rounds)
                accuracy = seen.val_accuracy(relations.scores(labels))
                if accuracy > best:
                    best, chosen, kept = accuracy, (penalty, aggregate), relations
        scores = kept.scores(kept.one_by_one(order, self.rounds))
        return Prediction(scores, {"inverse_penalty": chosen[0], "aggregate": chosen[1]})

    def _relations(
        self, seen: SeenGraph, x: sparse.csr_array, penalty: float, aggregate: str
    ) -> LabelRelations:
        """Fit both regressions to the training nodes."""
        train, y = seen.train.numpy(), seen.train_y.numpy()
        local, begins = logistic_regression(x[train], y, penalty, seen.classes)
        labels = (x @ local + begins).argmax(axis=1)
        labels[train] = y
        neighbours = seen.adjacency
        if aggregate == "share":
            scale = 1 / np.maximum(seen.degrees, 1)
            neighbours = sparse.csr_array(sparse.diags_array(scale) @ neighbours)
        summed = neighbours[train] @ np.eye(seen.classes)[labels]
        both = sparse.csr_array(sparse.hstack([x[train], sparse.csr_array(summed)]))
        weight, bias = logistic_regression(both, y, penalty, seen.classes)
        width = x.shape[1]
        return LabelRelations(neighbours, x @ weight[:width] + bias, weight[width:], labels)


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
        """Return labels after changing the nodes of ``order`` one at a time."""
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
        """Return labels after rounds in which all ``nodes`` change together."""
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
