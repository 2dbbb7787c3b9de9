import pytest
import torch

from drgcn.nn import MLP, SparseMatrix

from ..reference import layouts, mlp
from ..reference.gates import gate
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


@pytest.fixture
def x():
    return random_matrix(NODES, D)


def random_model(num_layers=2, dropout=0.0, **options):
    return randomized(MLP(D, HIDDEN, CLASSES, num_layers=num_layers, dropout=dropout, **options))


# The formula


@one_at_a_time(
    {"num_layers": 2, "reweight": "dr"},
    {"num_layers": 3, "reweight": "static"},
    num_layers=[1, 3],
    reweight=[None, "static", "constant"],
)
def test_model_equals_the_formula(x, setting):
    model = random_model(dropout=0.5, **setting).eval()
    weights = [weight.detach().numpy() for weight in model.weights]
    gates = [gate(layer.gate) for layer in model.inputs]
    expected = torch.from_numpy(mlp.forward(x.numpy(), weights, gates))
    for layout in layouts.ALL:
        torch.testing.assert_close(model(layout(x)), expected, rtol=1e-10, atol=1e-10)


def test_plain_model_equals_layers_of_torch(x):
    model = random_model()
    first, second = (
        torch.nn.Linear(a, b, bias=False) for a, b in ((D, HIDDEN), (HIDDEN, CLASSES))
    )
    theirs = torch.nn.Sequential(first, torch.nn.ReLU(), second)
    for linear, weight in zip((first, second), model.weights, strict=True):
        linear.weight = torch.nn.Parameter(weight.detach().t().clone())
    torch.testing.assert_close(model(x), theirs(x))
    expected = gradients(theirs(x), theirs)
    torch.testing.assert_close([g.t() for g in gradients(model(x), model)], list(expected))


def test_edges_are_not_looked_at(x):
    model = random_model(reweight="dr")
    assert torch.equal(model(x, EDGES), model(x))


# Dropout


@pytest.mark.parametrize("layout", [layouts.dense, SparseMatrix.from_tensor])
def test_dropout_acts_on_the_input_of_every_layer(x, layout, monkeypatch):
    seen = every_second_kept(monkeypatch)
    model = random_model(dropout=0.5, reweight="dr")
    layers = list(model.layers(layout(x), None))
    assert len(seen) == 2
    assert torch.equal(seen[0], x if layout is layouts.dense else layout(x).values)
    assert seen[1] is layers[0][2]
    (_, clean, _), _ = random_model(reweight="dr").layers(layout(x), None)
    assert torch.equal(layers[0][1], clean)  # pooled before dropout


# Parameters


def test_layers_have_no_biases():
    names = [name for name, _ in MLP(D, HIDDEN, CLASSES, num_layers=3).named_parameters()]
    assert names == ["weights.0", "weights.1", "weights.2"]
