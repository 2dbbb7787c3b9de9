import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.utils import subgraph

from drgcn.errors import DrgcnError
from drgcn.stability import gate_saturation, stability_k
from drgcn.studies.advice import learnt_gates
from drgcn.studies.advice.learnt_gates import (
    LearntGates,
    chance_bound,
    damping,
    learn_gates,
    order_of,
)
from drgcn.studies.build import build
from drgcn.studies.experiment import recipe
from drgcn.training import fit

from ...training.graphs import several


@pytest.fixture(scope="module")
def learnt(tiny):
    return learn_gates(tiny, 5, 12)  # more than one block of lanes, the second not full


@pytest.fixture(scope="module")
def models(tiny):
    usual = recipe("planted", "random", reweight="dr", epochs=12)
    return fit(lambda: build(usual, tiny), tiny, range(5), epochs=12)


def test_looking_changes_nothing(tiny, learnt, models):
    assert [one.seed for one in learnt] == [0, 1, 2, 3, 4]
    assert [one.best_epoch for one in learnt] == models.best_epoch
    for one, model in zip(learnt, models.models, strict=True):
        layers = list(model.layers(tiny.x, tiny.edge_index))
        wanted = [stability_k(x, s) for x, s, _ in layers]
        assert one.k == pytest.approx(wanted, abs=1e-4)
        assert one.saturation == pytest.approx([gate_saturation(s) for _, s, _ in layers])
        np.testing.assert_allclose(one.s, layers[0][1].detach(), atol=1e-5)


def test_epochs_looked_at_are_those_of_shorter_trainings(tiny, learnt):
    """K at epoch 7 is K of the last weights of a training of seven epochs."""
    shorter = learn_gates(tiny, 2, 7)
    for longer, one in zip(learnt, shorter, strict=False):
        assert one.epochs == [0, 1, 2, 3, 5, 7]
        assert longer.epochs == [0, 1, 2, 3, 5, 7, 10, 12]
        assert longer.k_by_epoch[:6] == one.k_by_epoch
        assert len({k for k, _ in longer.k_by_epoch}) > 4  # it moves


def test_before_training_k_is_that_of_the_initial_gate(tiny, learnt):
    usual = recipe("planted", "random", reweight="dr")
    stack = learnt_gates.ModelStack(
        lambda: build(usual, tiny), (0,), (tiny.x, tiny.edge_index), torch.device("cpu")
    )
    x, s, _ = next(stack.model(0).layers(tiny.x, tiny.edge_index))
    assert learnt[0].k_by_epoch[0][0] == pytest.approx(stability_k(x, s), abs=1e-4)


def test_all_is_plain_json(learnt):
    assert json.loads(json.dumps(learnt[0].to_dict()))["k_by_epoch"] == learnt[0].k_by_epoch


def test_trainings_that_diverge_are_refused(tiny, monkeypatch):
    usual = recipe("planted", "random", reweight="dr", epochs=3)
    monkeypatch.setattr(learnt_gates, "recipe", lambda *_, **__: replace(usual, lr=1e30))
    with pytest.raises(DrgcnError, match="diverged"):
        learn_gates(tiny, 1, 3)


def test_of_several_graphs_the_gate_is_the_mean_over_those_tested():
    data = several()
    (one,) = learn_gates(data, 1, 2)
    usual = recipe(data.dataset.name, data.dataset.split, reweight="dr", epochs=2)
    (model,) = fit(lambda: build(usual, data), data, [0], epochs=2).models
    each = []
    for graph in data.graph[data.test_mask].unique():
        nodes = data.graph == graph
        edges, _ = subgraph(nodes, data.edge_index, relabel_nodes=True)
        _, s, _ = next(model.layers(data.x[nodes], edges))
        each.append(s.detach())
    assert len(each) == 2
    assert not torch.allclose(*each)
    np.testing.assert_allclose(one.s, torch.stack(each).mean(0), atol=1e-5)


def gates(s):
    return LearntGates(0, 1, [1.0], [0.0], list(s), [0, 1], [[1.0], [1.0]])


def test_damping_is_the_rank_correlation_over_dimensions_that_vary():
    variance = [0.0, 4.0, 1.0, 9.0, 2.0]
    down, up = gates([0.99, 0.3, 0.8, 0.1, 0.5]), gates([0.0, 0.7, 0.1, 0.9, 0.5])
    assert damping(variance, [down, up]) == pytest.approx([-1, 1])
    assert damping(variance, [gates([0.5] * 5)]) == []
    # By hand: ranks of variance 3 1 4 2, of s 1 2 4 3; differences 2 -1 0 -1; 1 - 6 * 6 / 60.
    assert damping(variance, [gates([0.5, 0.1, 0.2, 0.4, 0.3])]) == pytest.approx([0.4])


@pytest.mark.parametrize(
    ("dimensions", "printed"),
    [(5, 1.0), (6, 0.886), (7, 0.786), (8, 0.738), (10, 0.648), (20, 0.447), (30, 0.362)],
)
def test_the_bound_of_chance_is_that_of_printed_tables(dimensions, printed):
    # Two-sided 5 % points of Spearman's coefficient; Student's t is a little below them.
    assert chance_bound(dimensions) == pytest.approx(printed, abs=1e-3 if dimensions < 9 else 0.02)


def test_few_dimensions_have_no_order_beyond_chance():
    assert [chance_bound(d) for d in range(5)] == [float("inf")] * 5
    assert order_of([-1.0, -1.0], 3) == "no clear order"


@pytest.mark.parametrize("dimensions", [6, 12, 40])
def test_unrelated_orders_pass_the_bound_one_time_in_twenty_at_most(dimensions):
    draw = np.random.default_rng(0)
    base, bound = np.arange(dimensions), chance_bound(dimensions)
    ranks = draw.random((20_000, dimensions)).argsort(1)
    squares = np.square(ranks - base).sum(1)
    passed = np.abs(1 - 6 * squares / (dimensions * (dimensions**2 - 1))) >= bound
    assert 0.025 < passed.mean() < 0.055


def test_noise_is_no_order_and_every_seed_must_be_beyond_chance():
    assert order_of([-0.26, -0.43, -0.09], 6) == "no clear order"
    assert order_of([-0.95, -0.90, -0.43], 6) == "no clear order"
    assert order_of([-0.95, -0.90], 6) == "damped"
    assert order_of([0.95, 0.90], 6) == "amplified"
    assert order_of([0.95, -0.95], 6) == "no clear order"
    assert order_of([-0.43, -0.40], 100) == "damped"
    assert order_of([], 100) == "no clear order"
