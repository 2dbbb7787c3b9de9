"""Simple predictors, against counting by hand and scikit-learn called directly."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from torch_geometric.data import Data

from drgcn.audit.graph_view import GraphView
from drgcn.audit.leaks.predictors import STRENGTHS, baselines, lookup_finding, lookup_scores
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


def told(data, node):
    """Labels that a look-up table of training labels has for a node, counted by hand."""
    own = int(data.identity[node])
    alike = (data.identity == own) & data.train_mask if own != -1 else data.train_mask & False
    rows = data.y[alike if alike.any() else data.train_mask]
    if data.y.dim() == 2:
        return (rows.mean(0) > 0.5).float(), bool(alike.any())
    return rows.bincount(minlength=3).argmax(), bool(alike.any())


def test_a_look_up_table_is_the_one_counted_by_hand():
    for several in (False, True):
        data = example()
        rng = np.random.default_rng(1)
        data.identity = torch.from_numpy(rng.integers(-1, 60, 120))
        if several:
            data.y = torch.from_numpy((rng.random((120, 5)) < 0.5).astype(np.float32))
        found, metric = lookup_scores(GraphView.of(data))
        assert metric == ("micro-F1" if several else "accuracy")
        for part in ("val", "test"):
            nodes = data[f"{part}_mask"].nonzero().flatten().tolist()
            answers = [told(data, node) for node in nodes]
            for wanted, score in (
                ((True, False), found[part].table),
                ((True,), found[part].table_on_seen),
                ((False,), found[part].table_on_others),
            ):
                chosen = [i for i, (_, seen) in enumerate(answers) if seen in wanted]
                given = torch.stack([answers[i][0] for i in chosen])
                truth = data.y[[nodes[i] for i in chosen]]
                if several:
                    expected = f1_score(truth, given, average="micro")
                else:
                    expected = float((given == truth).float().mean())
                assert score == pytest.approx(expected)
            assert found[part].seen == sum(seen for _, seen in answers)


def test_things_in_training_are_serious_where_their_labels_help():
    data = example()
    data.identity = torch.arange(120)
    assert lookup_finding(GraphView.of(data)).severity == "fine"
    # Every test node is a training node under another number, with the same label.
    train, test = (mask.nonzero().flatten() for mask in (data.train_mask, data.test_mask))
    data.identity[test] = data.identity[train[torch.arange(len(test)) % len(train)]]
    data.y[test] = data.y[train[torch.arange(len(test)) % len(train)]]
    finding = lookup_finding(GraphView.of(data), {"a network": 0.9})
    assert finding.severity == "serious"
    assert dict(finding.rows)["look-up table of training labels"] == 1.0
    assert dict(finding.rows)["a network"] == 0.9
    assert finding.numbers["things with different labels"] == 0
    # The same things with labels that contradict those in training.
    data.y[test] = (data.y[test] + 1) % 3
    assert lookup_finding(GraphView.of(data)).severity == "warning"


def test_a_table_needs_labels_and_a_training_part():
    for changes in ({"train_mask": torch.zeros(120, dtype=torch.bool)}, {"y": torch.rand(120, 2)}):
        data = example()
        data.identity = torch.zeros(120, dtype=torch.int64)
        for name, value in changes.items():
            data[name] = value
        assert lookup_finding(GraphView.of(data)).summary.startswith("Not looked at")
