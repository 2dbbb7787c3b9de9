"""Recorded programs: the same numbers and gradients as the models they stand for."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric import nn as pyg
from torch_geometric.nn import models
from torch_geometric.utils import softmax

from drgcn import fit, insert_reweighting
from drgcn.data import load
from drgcn.errors import DrgcnError
from drgcn.streams import stream_key
from drgcn.training.stack import ModelStack, Running, choose_way
from drgcn.training.tracing import _Attention, _LargestMessage

NODES, FEATURES, CLASSES = 50, 90, 4
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def inputs():
    """Sparse features; edges with self-loops, some of them twice, and nodes without any."""
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(NODES, FEATURES, generator=draw)
    x = x * (torch.rand(NODES, FEATURES, generator=draw) < 0.05)
    edges = torch.randint(NODES - 5, (2, 140), generator=draw)
    return x, torch.cat([edges, edges[:, :10], torch.arange(6).repeat(2, 1)], 1)


class Two(nn.Module):
    """A layer, dropout, and another layer."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, edge_index):
        x = F.dropout(self.first(x, edge_index).relu(), 0.5, self.training)
        return self.second(x, edge_index)


def basic(network, **options):
    return lambda: network(FEATURES, 8, num_layers=2, out_channels=CLASSES, dropout=0.5, **options)


def two(layer, **options):
    return lambda: Two(layer(FEATURES, 8, **options), layer(8, CLASSES, **options))


# Models, and how many of their products are sparse in a program.
MODELS = {
    "GCN": (basic(models.GCN), 3),
    "GCN, cached": (basic(models.GCN, cached=True), 3),
    "GCN, batch norm": (basic(models.GCN, norm="batch"), 3),
    "GCN, jumping": (basic(models.GCN, jk="cat"), 3),
    "GAT": (basic(models.GAT, heads=2), 5),
    "GAT, v2": (basic(models.GAT, heads=2, v2=True), 6),
    "SAGE": (basic(models.GraphSAGE), 3),
    "SAGE, max": (basic(models.GraphSAGE, aggr="max"), 2),
    "GIN": (basic(models.GIN), 2),
    "GIN, trained eps": (basic(models.GIN, train_eps=True), 1),
    "GraphConv": (two(pyg.GraphConv), 3),
    "ChebConv": (two(pyg.ChebConv, K=2), 3),
    "SGConv": (two(pyg.SGConv, K=2), 2),
    "TAGConv": (two(pyg.TAGConv, K=2), 4),
    "ARMAConv": (two(pyg.ARMAConv), 4),
    "LEConv": (two(pyg.LEConv), 3),
    "TransformerConv": (two(pyg.TransformerConv), 8),
    "Dr": (lambda: insert_reweighting(basic(models.GCN)()), 2),
}

# Attention of one network is one product with what makes its weights.
ALONE = {"GAT": 3}

# Those that are run for several seeds and in evaluation mode too.
WHOLLY = ("GCN, batch norm", "GAT")


def passes(make, inputs, running, seeds, training):
    """Scores and gradients of models in one way of running, and buffers afterwards."""
    stack = ModelStack(make, seeds, inputs, CPU, running)
    keys = torch.tensor([stream_key(seed, "dropout") for seed in seeds]) if training else None
    for _ in range(2):  # a second time, with what the first has left behind
        scores = stack(inputs, keys)
    weights = torch.randn(scores.shape, generator=torch.Generator().manual_seed(1))
    trained = {n: p for n, p in stack.parameters.items() if p.requires_grad}
    found = torch.autograd.grad((scores * weights).sum(), trained.values(), allow_unused=True)
    pairs = zip(trained, found, strict=True)
    gradients = {name: g for name, g in pairs if g is not None and g.abs().max() > 1e-6}
    return scores.detach(), gradients, stack.buffers


# Of the others there is one of each kind of layer in the unit tier.
SELDOM = ("GCN, cached", "GCN, jumping", "GAT, v2", "SAGE, max", "ChebConv", "TAGConv", "LEConv")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SELDOM)) for n in MODELS]
)
def test_programs_are_the_models_they_stand_for(inputs, name):
    make, products = MODELS[name]
    constants = frozenset(n for n, _ in make().named_buffers() if n.endswith("eps"))
    ways = [((3,), "looped", True), ((3, 4), "stacked", True), ((3, 4), "stacked", False)]
    for seeds, other, training in ways if name in WHOLLY else ways[:1]:
        running = Running("traced", constants)
        found = passes(make, inputs, running, seeds, training)
        expected = passes(make, inputs, Running(other), seeds, training)
        torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found[1], expected[1], rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(found[2], expected[2])
        ((_, program),) = running.programs.values()
        once = ALONE.get(name, products) if len(seeds) == 1 else products
        assert sum(1 for _ in program.children()) == once


def test_what_depends_on_the_graph_alone_is_not_in_the_program(inputs):
    running = Running("traced")
    passes(basic(models.GCN), inputs, running, (0,), training=False)
    ((_, program),) = running.programs.values()
    done = {str(node.target) for node in program.graph.nodes}
    for once in ("scatter_add", "pow", "cat", "index", "masked_fill"):
        assert not any(f"aten.{once}." in name for name in done), once


class NoGradient(Two):
    """A gradient that is stopped, which no recorded operation shows."""

    def forward(self, x, edge_index):
        with torch.no_grad():
            hidden = self.first(x, edge_index)
        return self.second(hidden, edge_index)


class FromNumpy(Two):
    def forward(self, x, edge_index):
        keep = torch.from_numpy(np.random.default_rng().random(len(x)) < 0.5)
        return super().forward(x * keep[:, None] if self.training else x, edge_index)


class ByNoise(Two):
    def forward(self, x, edge_index):
        noise = torch.randn_like(x) if self.training else 0
        return super().forward(x + noise, edge_index)


class ByValue(Two):
    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index)
        return self.second(hidden if float(hidden.detach().sum()) > 0 else -hidden, edge_index)


def layers():
    return pyg.GCNConv(FEATURES, 8), pyg.GCNConv(8, CLASSES)


@pytest.mark.parametrize("model", [NoGradient, ByNoise, ByValue])
def test_what_a_program_cannot_stand_for_is_run_as_it_is(inputs, model):
    running = choose_way(lambda: model(*layers()), inputs, CPU, tracing=True)
    assert running.way == "looped"
    assert "traced" in running.reason


def test_random_numbers_from_elsewhere_are_refused(inputs):
    with pytest.raises(DrgcnError, match="random numbers"):
        choose_way(lambda: FromNumpy(*layers()), inputs, CPU, tracing=True)


def test_an_interruption_of_a_way_is_no_reason_to_take_another(inputs, monkeypatch):
    def interrupted(*_, **__):
        try:
            raise KeyboardInterrupt
        finally:
            raise RecursionError

    monkeypatch.setattr("drgcn.training.stack._Truth.difference", interrupted)
    with pytest.raises(KeyboardInterrupt):
        choose_way(MODELS["GCN"][0], inputs, CPU, tracing=True)


def test_programs_are_chosen_where_they_are_right(inputs):
    for name in ("GAT", "Dr"):
        running = choose_way(MODELS[name][0], inputs, CPU, tracing=True)
        assert (running.way, running.reason) == ("traced", ""), name
    assert choose_way(MODELS["GCN"][0], inputs, CPU, tracing=False).way == "looped"


def test_training_by_programs_is_training(inputs):
    data = load("planted", nodes=240, labels_per_class=8, val_per_class=15, features=24)

    def make():
        return models.GCN(24, 8, num_layers=2, out_channels=4, dropout=0.5)

    short, long = (fit(make, data, range(2), epochs=count) for count in (19, 20))
    for a, b in zip(short.curves["train_loss"], long.curves["train_loss"], strict=True):
        torch.testing.assert_close(a, b[:19], rtol=1e-3, atol=1e-3)
    alone = fit(make, data, [1], epochs=20)
    assert torch.equal(alone.curves["train_loss"][0], long.curves["train_loss"][1])


@pytest.mark.parametrize("axis", [0, 1])
def test_the_largest_messages_are_those_of_torch(axis):
    to = torch.tensor([4, 0, 4, 2, 0])
    messages = -torch.rand(5, 5, 3)  # below the zero of nodes without any
    index = to.view(-1, 1) if axis else to.view(-1, 1, 1)
    expected = torch.zeros(5, 5, 3).scatter_reduce(
        axis, index.expand(5, 5, 3), messages, "amax", include_self=False
    )
    assert torch.equal(_LargestMessage(to, 5, axis)(messages), expected)


def messages():
    """Targets and sources of messages among six nodes: one twice, and none to the last node."""
    return torch.tensor([4, 0, 4, 2, 0, 1, 3, 0, 0]), torch.tensor([1, 1, 4, 5, 0, 3, 3, 2, 2])


@pytest.mark.parametrize("scale", [1.0, 60.0], ids=["small scores", "large scores"])
@pytest.mark.parametrize("heads", [1, 3])
def test_attention_has_the_gradients_of_its_formula(heads, scale):
    draw = torch.Generator().manual_seed(heads)
    to, start = messages()
    x, source, target = (
        torch.randn(rows, heads, 2, dtype=torch.float64, generator=draw).requires_grad_()
        for rows in (6, 1, 1)
    )
    factors = 2 * torch.randint(2, (len(to) * heads,), generator=draw).double()
    attend = _Attention(to, start, x, 0.2)

    def formula(x, source, target):
        scores = (x * source * scale).sum(-1)[start] + (x * target * scale).sum(-1)[to]
        alpha = softmax(F.leaky_relu(scores, 0.2), to, num_nodes=6) * factors.view(-1, heads)
        sums = torch.zeros_like(x).index_add(0, to, alpha[..., None] * x[start])
        return sums.requires_grad_()

    given = (x, source * scale, target * scale)
    torch.testing.assert_close(attend(*given, factors), formula(x, source, target))
    weights = torch.randn(x.shape, dtype=x.dtype, generator=draw)
    found, expected = (
        torch.autograd.grad((out * weights).sum(), (x, source, target))
        for out in (attend(*given, factors), formula(x, source, target))
    )
    torch.testing.assert_close(found, expected)
    if scale == 1:
        assert torch.autograd.gradcheck(attend, (x, source, target, factors))
        assert torch.autograd.gradcheck(attend, (x, source, target))
