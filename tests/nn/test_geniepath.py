from itertools import pairwise

import pytest
import torch
from torch_geometric.data import Data

from drgcn.data import unite
from drgcn.nn import AdaptivePath, GeniePath, SparseMatrix
from drgcn.nn.graph import neighborhoods
from drgcn.training import fit

from ..reference import geniepath, layouts
from .matrices import random_matrix
from .models import (
    CLASSES,
    EDGES,
    NODES,
    D,
    every_second_kept,
    gradients,
    one_at_a_time,
    randomized,
)

HIDDEN = 5
LAZY = pytest.mark.parametrize("lazy", [False, True])
EXACT = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture
def x():
    return random_matrix(NODES, D)


def random_model(num_layers=2, dropout=0.0, **options):
    return randomized(
        GeniePath(D, HIDDEN, CLASSES, num_layers=num_layers, dropout=dropout, **options)
    )


def neighbor_lists(edges=EDGES, nodes=NODES):
    found = [{node} for node in range(nodes)]
    for source, target in edges.t().tolist():
        found[target].add(source)
    return [sorted(each) for each in found]


def gates_of(model):
    def one(gate):
        return (lambda _: 1.0) if gate is None else (lambda h: gate.from_mean(h.mean(0)))

    return [one(enter.gate) for enter in model.inputs]


# The formula


@one_at_a_time(
    {"num_layers": 3, "lazy": False, "reweight": "dr"},
    {"num_layers": 1, "lazy": True},
    {"lazy": True, "reweight": "static"},
    num_layers=[1],
    lazy=[True],
    reweight=[None, "static", "constant"],
)
def test_model_and_gradients_equal_the_formula(x, setting):
    model = random_model(**setting)
    expected = geniepath.forward(x, neighbor_lists(), model, gates_of(model))
    wanted = gradients(expected, model)
    for layout in (layouts.dense, SparseMatrix.from_tensor):
        found = model(layout(x), EDGES)
        torch.testing.assert_close(found, expected, **EXACT)
        torch.testing.assert_close(gradients(found, model), wanted, **EXACT)


def test_a_tied_layer_is_torchs_lstm_without_its_past(x):
    """Given what was gathered, depth is an LSTM cell whose weights of the last output are zero."""
    layer = randomized(AdaptivePath(D, HIDDEN))
    cell = torch.nn.LSTMCell(HIDDEN, HIDDEN, bias=False).double()
    order = [0, 1, 3, 2]  # torch has input, forget, new, output
    state = (torch.randn(NODES, HIDDEN).double(), torch.randn(NODES, HIDDEN).double())
    breadth, (hidden, memory) = layer(x, neighborhoods(EDGES, NODES), state)
    with torch.no_grad():
        cell.weight_ih.copy_(layer.gates[:, order].flatten(1).t())
        cell.weight_hh.zero_()
    expected = cell(breadth, state)
    torch.testing.assert_close((hidden, memory), expected)


@LAZY
def test_with_its_options_the_model_and_its_gradients_are_those_of_public_code(x, lazy):
    options = {"attention": "gat", "recurrent": True, "input_bias": True, "stacked": not lazy}
    model = random_model(num_layers=3, lazy=lazy, **options)
    public = geniepath.Public(D, HIDDEN, CLASSES, 3, lazy).load(model)
    edges = unrepeated(EDGES)
    for layout in (layouts.dense, SparseMatrix.from_tensor):
        found, expected = model(layout(x), edges), public(x, edges)
        torch.testing.assert_close(found, expected, **EXACT)
    factors = torch.randn(found.shape, dtype=torch.float64)
    for out, net in ((found, model), (expected, public)):
        (out * factors).sum().backward()
        assert all(p.grad is not None for p in net.parameters())
    for path, conv, cell in zip(model.paths, public.convs, public.cells, strict=True):
        torch.testing.assert_close(path.weight.grad[:, 0], conv.lin.weight.grad.t(), **EXACT)
        torch.testing.assert_close(path.att.grad[:, 0], conv.att_dst.grad[0, 0], **EXACT)
        torch.testing.assert_close(path.bias.grad, conv.bias.grad, **EXACT)
        gates = torch.cat([cell.weight_ih_l0.grad, cell.weight_hh_l0.grad], dim=1)
        found = path.gates.grad[:, [0, 1, 3, 2]].flatten(1).t()
        torch.testing.assert_close(found, gates, **EXACT)
    torch.testing.assert_close(model.embedding.grad, public.enter.weight.grad.t(), **EXACT)
    torch.testing.assert_close(model.embedding_bias.grad, public.enter.bias.grad, **EXACT)


def unrepeated(edges):
    """Edges without loops and repetitions, which PyG's layer would count again."""
    edges = edges[:, edges[0] != edges[1]]
    return edges.unique(dim=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "dot"}, "attention from"),
        ({"stacked": False}, "stacked=False with lazy=True"),
    ],
)
def test_impossible_forms_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GeniePath(D, HIDDEN, CLASSES, **options)


def test_large_scores_do_not_overflow(x):
    layer = randomized(AdaptivePath(D, HIDDEN))
    with torch.no_grad():
        layer.att.mul_(1e4)
    state = (torch.zeros(NODES, HIDDEN).double(),) * 2
    breadth, _ = layer(x, neighborhoods(EDGES, NODES), state)
    assert breadth.isfinite().all()
    assert (breadth != 0).any()


# Dropout and parameters


@LAZY
def test_dropout_stands_in_front_of_every_layer(x, lazy, monkeypatch):
    seen = every_second_kept(monkeypatch)
    model = random_model(dropout=0.5, lazy=lazy, reweight="dr")
    found = model(x, EDGES)
    assert [values.shape for values in seen] == [(NODES, D), *[(NODES, HIDDEN)] * 2]
    masks = [2.0 * (torch.arange(v.numel()).view(v.shape) % 2 == 0) for v in seen]
    expected = geniepath.forward(x, neighbor_lists(), model, gates_of(model), masks)
    torch.testing.assert_close(found, expected, **EXACT)


# Layers and training


@LAZY
def test_layers_hold_what_the_next_layer_takes(x, lazy):
    model = random_model(num_layers=3, lazy=lazy, reweight="dr")
    layers = list(model.layers(x, EDGES))
    assert len(layers) == 4
    assert torch.equal(layers[-1][2], model(x, EDGES))
    for this, following in pairwise(layers):
        assert this[2] is following[0]


def made_graph(seed):
    """Two labels a node: whether one of two features is high on average over the neighbours."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(60, 5, generator=generator)
    edges = torch.randint(60, (2, 120), generator=generator)
    edges = torch.cat([edges, edges.flip(0), torch.arange(60).expand(2, -1)], dim=1)
    total = torch.zeros(60, 5).index_add(0, edges[1], x[edges[0]])
    y = (total[:, :2] / edges[1].bincount(minlength=60)[:, None] > 0.1).float()
    return Data(x=x, edge_index=edges, y=y)


@pytest.mark.slow
@pytest.mark.parametrize("lazy", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_form_for_ppi_learns_graphs_with_several_labels(lazy):
    train, val, test = ([made_graph(10 * part + i) for i in range(3)] for part in range(3))
    data = unite(train, val, test)

    def scores(epochs):
        def make():
            return GeniePath(5, 16, 2, num_layers=2, lazy=lazy, dropout=0.0, reweight="dr")

        options = {"epochs": epochs, "graphs_per_step": 1, "lr": 0.03, "weight_decay": 0.0}
        return fit(make, data, [0, 1], **options).test_accuracy

    learnt = min(scores(20))
    assert learnt > max(scores(1)) + 0.1
    assert learnt > 0.8
