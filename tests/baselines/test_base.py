"""The graph that baselines see, and logistic regression."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from drgcn.baselines import (
    METHODS,
    DeepWalk,
    DualPrimal,
    GraphSGAN,
    InductiveManifoldRegularization,
    InductiveSemiEmbedding,
    IterativeClassification,
    LabelPropagation,
    ManifoldRegularization,
    MoNet,
    Planetoid,
    PlanetoidI,
    PlanetoidScript,
    SemiEmbedding,
    method,
)
from drgcn.baselines.base import SeenGraph, logistic_regression, seeded
from drgcn.errors import DrgcnWarning, InputError
from tests.baselines.graphs import blocks

ROUNDS = {"label_rounds": 20, "label_pairs": 10, "passes": 1, "steps": 30}
QUICK = {
    "manireg-inductive": InductiveManifoldRegularization((1e-2,), (1e2, 1e4)),
    "manireg": ManifoldRegularization(),
    "semiemb-inductive": InductiveSemiEmbedding(epochs=10, channels=4),
    "semiemb": SemiEmbedding(weights=(1.0, 10.0), epochs=10, channels=4),
    "label-propagation": LabelPropagation(),
    "deepwalk": DeepWalk(walks=1, length=5, window=2, channels=4),
    "ica": IterativeClassification(),
    "planetoid-t-script": PlanetoidScript(label_rounds=20, graph_rounds=3, steps=30),
    "planetoid-t": Planetoid(**ROUNDS),
    "planetoid-i": PlanetoidI(**ROUNDS),
    "graphsgan": GraphSGAN(walks=1, channels=(6, 5), batch_size=8, epochs=1, batches=2),
    "monet": MoNet(coordinates=(2,), epochs=3),
    "dpfcnn": DualPrimal(heads=2, channels=3, epochs=3),
}


def test_every_method_is_tried_here():
    assert QUICK.keys() == METHODS.keys()


@pytest.mark.parametrize("name", QUICK)
def test_labels_of_test_nodes_change_nothing(name):
    data, poisoned = blocks(), blocks()
    outside = ~(data.train_mask | data.val_mask)
    poisoned.y = poisoned.y.clone()
    poisoned.y[outside] = (poisoned.y[outside] + 1) % 3
    poisoned.y[-1] = -1  # unknown
    poisoned.y[-2] = 17  # a class that nobody else has
    clean, other = QUICK[name].predict(data, 4), QUICK[name].predict(poisoned, 4)
    assert torch.equal(clean.scores, other.scores)
    assert clean.chosen == other.chosen
    assert clean.scores.shape == (60, 3)


@pytest.mark.parametrize("name", ["label-propagation", "deepwalk"])
def test_labels_of_validation_nodes_change_nothing_where_nothing_is_chosen(name):
    data, poisoned = blocks(), blocks()
    poisoned.y = torch.where(data.val_mask, (data.y + 1) % 3, data.y)
    assert torch.equal(QUICK[name].predict(data).scores, QUICK[name].predict(poisoned).scores)


@pytest.mark.parametrize("name", QUICK)
def test_a_seed_decides_and_nobody_elses_draws_do(name):
    data, one = blocks(), QUICK[name]
    first = one.predict(data, 1).scores
    torch.rand(100)
    np.random.rand(100)
    assert torch.equal(first, one.predict(data, 1).scores)
    if one.deterministic:
        assert torch.equal(first, one.predict(data, 2).scores)


def test_the_seed_is_used():
    data = blocks()
    for name, one in QUICK.items():
        if one.deterministic or name == "ica":  # which may draw and come to the same
            continue
        assert not torch.equal(one.predict(data, 1).scores, one.predict(data, 2).scores), name


def test_sparse_features_are_the_same_features():
    data, thin = blocks(), blocks()
    thin.x = thin.x.to_sparse_csr()
    for one in (QUICK["manireg"], QUICK["ica"]):
        assert torch.equal(one.predict(data).scores, one.predict(thin).scores)


def test_edges_are_undirected_without_loops_and_repeats():
    data = blocks()
    whole = SeenGraph.of(data).adjacency.toarray()
    forward = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    loops = torch.tensor([[5, 6], [5, 6]])
    data.edge_index = torch.cat([forward, forward[:, :9], loops], dim=1)
    assert np.array_equal(SeenGraph.of(data).adjacency.toarray(), whole)


def test_weights_of_edges_are_said_not_to_be_used():
    data = blocks()
    data.edge_weight = torch.full((data.num_edges,), 2.0)
    with pytest.warns(DrgcnWarning, match="baselines take no edge weights"):
        SeenGraph.of(data)


def broken(**changes):
    data = blocks()
    for name, value in changes.items():
        data[name] = value
    return data


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x": None}, "Expected a graph with x; found none"),
        ({"train_mask": torch.zeros(60, dtype=torch.bool)}, "found 0 classes on 0 training nodes"),
        ({"y": torch.zeros(60, dtype=torch.long)}, "found 1 classes on 12 training nodes"),
        ({"y": torch.full((60,), -1)}, "found 0 classes on 12 training nodes"),
        ({"y": torch.ones(60, 4)}, "Expected one class per node; found 4 labels per node"),
        ({"val_mask": torch.zeros(60, dtype=torch.bool)}, "Expected validation nodes; found none"),
    ],
)
def test_what_cannot_be_used_is_said(changes, words):
    with pytest.raises(InputError, match=words):
        LabelPropagation().predict(broken(**changes))


def test_seeds_are_whole_numbers():
    for seed in (-1, 1.5, True, "a"):
        with pytest.raises(InputError, match="Expected a seed that is a whole number"):
            seeded(seed)


def test_names_are_known():
    assert isinstance(method("ica"), IterativeClassification)
    with pytest.raises(InputError, match=r"Expected a method out of .*ica.*; found 'svm'"):
        method("svm")


@pytest.mark.parametrize("present", [(0, 1), (0, 2), (0, 1, 2, 4)])
def test_scores_are_those_of_scikit_learn(present):
    rng = np.random.default_rng(0)
    y = np.array(present)[np.arange(40) % len(present)]
    x = rng.normal(size=(40, 3)) + y[:, None]
    weight, bias = logistic_regression(x, y, 0.5, 5)
    theirs = LogisticRegression(C=0.5, max_iter=1000).fit(x, y)
    scores = (x @ weight + bias)[:, list(present)]
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chances, theirs.predict_proba(x), atol=1e-9)
    absent = sorted({*range(5)} - {*present})
    assert np.isneginf(bias[absent]).all()


def test_a_fit_without_an_end_is_warned_of():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 20)) * 10.0 ** rng.uniform(-4, 4, size=20)
    with pytest.warns(DrgcnWarning, match="has not come to an end in 1,000 steps"):
        logistic_regression(x, rng.integers(3, size=60), 1e6, 3)
