"""Iterative classification, against the literal algorithm."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from drgcn.baselines import IterativeClassification
from drgcn.baselines.base import seeded
from drgcn.baselines.ica import LabelRelations
from drgcn.errors import InputError
from tests.baselines.graphs import blocks


def literal(data, seed, penalty, aggregate, rounds=10):
    """Node by node, with scikit-learn asked for every single guess."""
    neighbours = [set() for _ in range(data.num_nodes)]
    for a, b in data.edge_index.t().tolist():
        neighbours[a].add(b)
    x, y = data.x.double().numpy(), data.y.numpy()
    train = np.flatnonzero(data.train_mask)
    classes = y.max() + 1

    def summed(node, labels):
        counts = np.zeros(classes)
        for other in neighbours[node]:
            counts[labels[other]] += 1
        return counts / max(counts.sum(), 1) if aggregate == "share" else counts

    local = LogisticRegression(C=penalty, max_iter=1000).fit(x[train], y[train])
    labels = local.predict(x)
    labels[train] = y[train]
    rows = np.array([np.concatenate([x[node], summed(node, labels)]) for node in train])
    relational = LogisticRegression(C=penalty, max_iter=1000).fit(rows, y[train])
    order = torch.randperm(data.num_nodes, generator=seeded(seed)).tolist()
    for _ in range(rounds):
        for node in order:
            if not data.train_mask[node]:
                row = np.concatenate([x[node], summed(node, labels)])
                labels[node] = relational.predict(row[None])[0]
    return labels


@pytest.mark.parametrize("aggregate", ["count", "share"])
@pytest.mark.parametrize("classes", [2, 4])
def test_is_the_literal_algorithm(aggregate, classes):
    data = blocks(seed=classes, classes=classes, features=6)
    data.x *= 0.5  # so that neighbours have a say
    method = IterativeClassification(inverse_penalties=(0.3,), aggregates=(aggregate,))
    for seed in range(3):
        ours = method.predict(data, seed).scores.argmax(dim=1)
        assert ours.tolist() == literal(data, seed, 0.3, aggregate).tolist()


def test_changes_count_at_once_only_one_by_one():
    # A path a - b - c where everybody takes the class of the neighbour to the left.
    left = sparse.csr_array(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], dtype=float))
    own = np.array([[0.0, 5.0], [0.0, 0.0], [0.0, 0.0]])
    relations = LabelRelations(left, own, np.eye(2), np.array([1, 0, 0]))
    order = np.array([1, 2])
    assert relations.one_by_one(order, 1).tolist() == [1, 1, 1]
    assert relations.at_once(order, 1).tolist() == [1, 1, 0]
    assert relations.at_once(order, 2).tolist() == [1, 1, 1]


def test_scores_are_highest_at_the_label():
    relations = LabelRelations(
        sparse.csr_array((2, 2)), np.array([[3.0, 1.0], [0.0, 2.0]]), np.eye(2), np.zeros(2, int)
    )
    assert relations.scores(np.array([1, 1])).argmax(dim=1).tolist() == [1, 1]


def test_unknown_aggregates_are_refused():
    with pytest.raises(InputError, match="Expected aggregates out of count, share; found"):
        IterativeClassification(aggregates=("mode",))
