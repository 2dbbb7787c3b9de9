"""What models make of features, edges and batches in an ordinary loop, once."""

import copy
import gc
import weakref

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from drgcn.nn import GAT, GCN, MLP, GeniePath, GraphSAGE, base
from drgcn.nn.sparse import SparsePattern

MODELS = (GCN, GAT, GraphSAGE)


def graph():
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(30, 40, generator=generator) < 0.1).float()
    return x, torch.randint(30, (2, 90), generator=generator)


def evaluate(model, x, edges):
    """Scores from tensors nobody has seen before."""
    return model.eval()(x.clone(), edges.clone())


@pytest.mark.parametrize("make", MODELS)
def test_edges_and_features_become_matrices_once(make, monkeypatch):
    made = []
    known = SparsePattern.from_coordinates.__func__
    monkeypatch.setattr(
        SparsePattern, "from_coordinates", classmethod(lambda *a: made.append(1) or known(*a))
    )
    model, (x, edges) = make(40, 8, 3), graph()
    model(x, edges)
    first = len(made)
    model(x, edges)
    assert len(made) == first > 0


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("which", ["x", "edges"])
@pytest.mark.parametrize("how", ["torch", "numpy", "data"])
def test_a_tensor_that_changes_is_seen(make, which, how):
    model, (x, edges) = make(40, 8, 3).eval(), graph()
    before = model(x, edges)
    changed = x if which == "x" else edges
    if how == "torch":
        changed[:, :20] = 1
    elif how == "numpy":
        changed.numpy()[:, :20] = 1
    else:
        changed.data[:, :20] = 1
    after = model(x, edges)
    torch.testing.assert_close(after, evaluate(model, x, edges), rtol=0, atol=0)
    assert not torch.equal(before, after)


@pytest.mark.parametrize("change", ["a zero", "a value", "sign"])
def test_a_single_entry_of_the_features_that_changes_is_seen(change):
    model, (x, edges) = GCN(40, 8, 3).eval(), graph()
    model(x, edges)
    place = (x == 0 if change == "a zero" else x != 0).nonzero()[0].tolist()
    x.numpy()[tuple(place)] = {"a zero": 1.0, "a value": 0.5, "sign": -1.0}[change]
    torch.testing.assert_close(model(x, edges), evaluate(model, x, edges), rtol=0, atol=0)


@pytest.mark.parametrize("make", [GCN, GraphSAGE])
@pytest.mark.parametrize("how", ["torch", "numpy"])
def test_the_graphs_of_a_batch_are_read_once_and_anew_when_they_change(make, how, monkeypatch):
    model, (x, edges) = make(40, 8, 3, reweight="dr").eval(), graph()
    batch = torch.arange(30) // 10
    before = model(x, edges, batch)
    made, known = [], SparsePattern.from_coordinates.__func__
    monkeypatch.setattr(
        SparsePattern, "from_coordinates", classmethod(lambda *a: made.append(1) or known(*a))
    )
    torch.testing.assert_close(model(x, edges, batch), before, rtol=0, atol=0)
    assert not made
    (batch.numpy() if how == "numpy" else batch)[:15] = 2
    after = model(x, edges, batch)
    assert not torch.equal(after, before)
    torch.testing.assert_close(after, model(x, edges, batch.clone()), rtol=0, atol=0)


def test_another_number_of_nodes_or_precision_has_a_matrix_of_its_own():
    model, (x, edges) = GCN(40, 8, 3).eval(), graph()
    model(x, edges)
    more = torch.cat([x, x[:2]])
    torch.testing.assert_close(model(more, edges), evaluate(model, more, edges))
    precise = copy.deepcopy(model).double()
    assert precise(x.double(), edges).dtype == torch.float64


def test_what_was_made_goes_with_the_tensor():
    gc.collect()
    before = len(base._MADE)
    for x, edges in ((graph()), (torch.rand(30, 40), graph()[1])):  # sparse, and dense as it is
        batch = torch.arange(30) // 10
        GCN(40, 8, 3, reweight="dr")(x, edges, batch)
    del x, edges, batch
    gc.collect()
    assert len(base._MADE) == before


def test_patterns_of_features_go_while_the_batch_they_met_stays():
    batch, edges, alive = torch.arange(30) // 10, graph()[1], []
    model = GCN(40, 8, 3, reweight="dr")
    for _ in range(3):
        x = graph()[0]
        model(x, edges, batch)
        alive.append(weakref.ref(base.lasting_features(x).pattern))
    del x
    gc.collect()
    assert [reference() for reference in alive] == [None] * 3


def test_a_model_that_uses_no_edges_keeps_nothing_of_them():
    x, edges = graph()
    MLP(40, 8, 3)(x, edges)
    assert x in base._MADE
    assert edges not in base._MADE


def test_gradients_reach_features_that_ask_for_them():
    model, (x, edges) = GCN(40, 8, 3).eval(), graph()
    model(x, edges)
    x.requires_grad_()
    model(x, edges).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


def test_transforms_and_inference_mode_see_the_same_scores():
    model, (x, edges) = MLP(40, 8, 3).eval(), graph()
    expected = evaluate(model, x, edges)
    weights = dict(model.named_parameters())

    def score(values):
        return torch.func.functional_call(model, values, (x, edges))

    stacked = {name: torch.stack([value, value]) for name, value in weights.items()}
    torch.testing.assert_close(torch.vmap(score)(stacked)[1], expected)
    torch.func.grad(lambda values: score(values).sum())(weights)
    torch.testing.assert_close(score(weights), expected)
    with torch.inference_mode():
        torch.testing.assert_close(model(x.clone(), edges), expected)
        torch.testing.assert_close(model(x, edges), expected)


def test_numpy_views_of_dense_features_are_not_kept():
    values = np.random.default_rng(0).random((30, 40), dtype=np.float32)
    x, edges = torch.from_numpy(values), graph()[1]
    model = GCN(40, 8, 3).eval()
    model(x, edges)
    values[:] = 0
    assert model(x, edges).abs().max() == 0


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("make", [*MODELS, GeniePath, MLP])
def test_a_model_that_was_tried_in_inference_mode_can_be_trained(make, prepared):
    model, (x, edges) = make(40, 8, 3, reweight="dr"), graph()
    inputs = model.prepare(Data(x=x, edge_index=edges)) if prepared else (x, edges)
    with torch.inference_mode():
        model(*inputs)
    model(*inputs).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
