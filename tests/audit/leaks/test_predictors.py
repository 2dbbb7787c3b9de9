"""Simple predictors, against counting by hand and scikit-learn called directly."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data

from drgcn.audit.graph_view import GraphView
from drgcn.audit.leaks.predictors import STRENGTHS, baselines
from drgcn.errors import InputError


def example(seed=0, nodes=120, sparse=False):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, nodes)
    x = (rng.random((nodes, 12)) < 0.2).astype(np.float32)
    x[:, 0] = (y == 1) & (rng.random(nodes) < 0.8)
    pairs = rng.integers(0, nodes, (2, 300))
    order = rng.permutation(nodes)
    masks = [
        torch.from_numpy(np.isin(np.arange(nodes), part)) for part in np.split(order, [50, 80])
    ]
    features = torch.from_numpy(x)
    return Data(
        x=features.to_sparse_csr() if sparse else features,
        y=torch.from_numpy(y),
        edge_index=torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1)),
        train_mask=masks[0],
        val_mask=masks[1],
        test_mask=masks[2],
    )


def test_votes_and_majority_are_those_counted_by_hand():
    for seed in range(4):
        data = example(seed)
        result = baselines(GraphView.of(data))
        y, train = data.y.tolist(), data.train_mask.tolist()
        counts = [sum(t and c == k for c, t in zip(y, train, strict=True)) for k in range(3)]
        guess = counts.index(max(counts))
        right = easy = reached = 0
        tested = data.test_mask.nonzero().flatten().tolist()
        for node in tested:
            votes = [0, 0, 0]
            for a, b in data.edge_index.T.tolist():
                if b == node and a != node and train[a]:
                    votes[y[a]] += 1
            reached += any(votes)
            right += y[node] == (votes.index(max(votes)) if any(votes) else guess)
            easy += y[node] == guess
        assert result.test == len(tested)
        assert result.neighbours == pytest.approx(right / len(tested))
        assert result.majority == pytest.approx(easy / len(tested))
        assert result.reached == pytest.approx(reached / len(tested))


def regression(data, columns):
    """On zeros and ones there is nothing to scale."""
    x, y = data.x.numpy()[:, columns], data.y.numpy()
    train, val, test = (data[f"{part}_mask"].numpy() for part in ("train", "val", "test"))
    scores = []
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=500).fit(x[train], y[train])
        scores.append((model.score(x[val], y[val]), model.score(x[test], y[test])))
    best = max(range(len(scores)), key=lambda i: scores[i][0])
    return STRENGTHS[best], scores[best][1]


def test_features_alone_are_a_regression_chosen_on_validation():
    for seed in range(4):
        data = example(seed)
        strength, accuracy = regression(data, list(range(12)))
        result = baselines(GraphView.of(data))
        assert (result.strength, result.features) == (strength, pytest.approx(accuracy))
        _, without = regression(data, list(range(1, 12)))
        assert baselines(GraphView.of(data), [0]).features == pytest.approx(without)


def test_sparse_is_dense():
    assert baselines(GraphView.of(example())) == baselines(GraphView.of(example(sparse=True)))


@pytest.mark.parametrize("factor", [1e-3, 40.0])
def test_the_unit_of_the_features_does_not_matter(factor):
    data = example()
    before = baselines(GraphView.of(data))
    data.x = data.x * factor
    assert baselines(GraphView.of(data)) == before


def test_columns_of_many_values_have_a_unit_each():
    data = example()
    rng = np.random.default_rng(1)
    measured = data.y[:, None] + torch.from_numpy(rng.normal(size=(120, 2)).astype(np.float32))
    data.x = torch.cat([measured, torch.full((120, 1), 5.0)], dim=1)
    before = baselines(GraphView.of(data))
    data.x = data.x * torch.tensor([1e4, 1e-4, 1.0])
    after = baselines(GraphView.of(data))
    assert after.features == pytest.approx(before.features, abs=0.03)
    assert after.features > 0.5


def test_without_features_the_majority_is_left():
    result = baselines(GraphView.of(example()), list(range(12)))
    assert result.features == result.majority


def test_without_validation_the_strength_is_one():
    data = example()
    data.val_mask[:] = False
    assert baselines(GraphView.of(data)).strength == 1.0


def test_a_node_is_no_neighbour_of_itself():
    data = example()
    data.test_mask = data.train_mask.clone()
    nodes = torch.arange(120)
    data.edge_index = torch.stack([nodes, nodes])
    result = baselines(GraphView.of(data))
    assert result.reached == 0.0
    assert result.neighbours == result.majority


def test_nothing_is_changed():
    data = example()
    before = data.clone()
    baselines(GraphView.of(data))
    for key in before.keys():  # noqa: SIM118 - the keys of a Data are a method
        assert torch.equal(before[key], data[key])


def broken(change):
    data = example()
    change(data)
    return GraphView.of(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: setattr(d, "y", torch.ones(120, 2)), "several labels a node"),
        (lambda d: setattr(d, "train_mask", d.train_mask & False), "found 0 classes"),
        (lambda d: setattr(d, "test_mask", None), "and 0 test nodes"),
        (lambda d: d.x.__setitem__((0, 0), float("nan")), "finite features"),
    ],
)
def test_what_cannot_be_predicted_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        baselines(broken(change))
