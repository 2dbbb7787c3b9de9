"""Models with ways of their own: what ``fit`` follows, and what it refuses."""

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GCNConv, MessagePassing, SAGEConv

from drgcn import compare, fit, insert_reweighting
from drgcn.errors import InputError
from drgcn.streams import stream_key

NODES, FEATURES, CLASSES = 60, 8, 3
COUNTS = (19, 24)  # below and above the number of epochs from which passes are recorded


@pytest.fixture(scope="module")
def graph():
    draw = torch.Generator().manual_seed(0)
    part = torch.rand(NODES, generator=draw).argsort().argsort()
    return Data(
        x=torch.randn(NODES, FEATURES, generator=draw),
        edge_index=torch.randint(NODES, (2, 240), generator=draw),
        y=torch.randint(CLASSES, (NODES,), generator=draw),
        train_mask=part < 25,
        val_mask=(part >= 25) & (part < 40),
        test_mask=part >= 40,
    )


def losses(make, graph, epochs, call=None):
    """Losses of a plain loop of PyG, and the model after it."""
    torch.manual_seed(stream_key(0, "initialisation"))
    model = make()
    steps = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    found = []
    for _ in range(epochs):
        steps.zero_grad()
        out = model.train()(graph.x, graph.edge_index) if call is None else call(model.train())
        loss = F.cross_entropy(out[graph.train_mask], graph.y[graph.train_mask])
        loss.backward()
        steps.step()
        found.append(float(loss.detach()))
    return found, model


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(FEATURES, 8), nn.Linear(8, CLASSES)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu())


class StoppedBehindZero(Layers):
    """Without gradient for the first layer, which no gradient shows while the second is zero."""

    def __init__(self):
        super().__init__()
        nn.init.zeros_(self.second.weight)

    def forward(self, x, edge_index):
        with torch.no_grad():
            hidden = self.first(x, edge_index).relu()
        return self.second(hidden)


class ZeroedBranch(Layers):
    def __init__(self):
        super().__init__()
        self.gamma, self.branch = nn.Parameter(torch.zeros(1)), nn.Linear(8, 8)

    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index)
        return self.second(hidden + self.gamma * self.branch(hidden).detach())


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = GCNConv(FEATURES, FEATURES), GCNConv(FEATURES, CLASSES)
        self.again = GCNConv(FEATURES, FEATURES)
        self.again.lin.weight = self.first.lin.weight

    def forward(self, x, edge_index):
        x = self.again(self.first(x, edge_index).relu(), edge_index)
        return self.last(x.relu(), edge_index)


class Averages(Layers):
    """State in a buffer that is left out of the state_dict, and changed in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8), persistent=False)

    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index).relu()
        if self.training:
            self.mean.mul_(0.9).add_(0.1 * hidden.detach().mean(0))
        return self.second(hidden - self.mean)


class Doubling(MessagePassing):
    """Messages with a number for their weight."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(FEATURES, CLASSES)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.lin(x))

    def message(self, x_j):
        return 2 * x_j


def normed():
    model = Layers()
    spectral_norm(model.second)
    return model


def frozen():
    model = Layers()
    model.first.requires_grad_(False)
    return model


@pytest.mark.parametrize("epochs", COUNTS)
@pytest.mark.parametrize(
    "make", [StoppedBehindZero, ZeroedBranch, Tied, Averages, Doubling, normed, frozen]
)
def test_training_is_that_of_a_plain_loop(graph, make, epochs):
    result = fit(make, graph, [0], epochs=epochs)
    expected, _ = losses(make, graph, epochs)
    assert result.curves["train_loss"][0].tolist() == pytest.approx(expected, rel=1e-3, abs=2e-5)
    right = result.predict(graph).classes == graph.y
    shown = float(right[graph.test_mask].float().mean())
    assert shown == pytest.approx(result.test_accuracy[0])  # by the model handed out


def test_weighted_graphs_take_the_fast_way(graph, caplog):
    weights = torch.rand(240, generator=torch.Generator().manual_seed(2))
    data = graph.clone()
    data.edge_weight = weights
    make = lambda: GCN(FEATURES, 8, 2, out_channels=CLASSES)  # noqa: E731
    result = fit(make, data, [0], epochs=24)
    assert "fastest" not in caplog.text
    call = lambda model: model(graph.x, graph.edge_index, weights)  # noqa: E731
    expected, _ = losses(make, graph, 24, call)
    assert result.curves["train_loss"][0].tolist() == pytest.approx(expected, rel=1e-3)


class Counts(Layers):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x, edge_index):
        self.step += self.training
        return super().forward(x, edge_index) * min(1.0, self.step / 50)


class Assigns(Layers):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * hidden.detach().mean(0)
        return self.second(hidden - self.mean)


class Remembers(Layers):
    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index)
        before = getattr(self, "_before", hidden.detach())
        self._before = hidden.detach() + 1
        return self.second(hidden + before)


@pytest.mark.parametrize("epochs", COUNTS)
@pytest.mark.parametrize(
    ("make", "words"),
    [(Counts, "changes step"), (Assigns, "another tensor to mean"), (Remembers, "a second call")],
)
def test_state_outside_of_buffers_is_refused(graph, make, words, epochs):
    with pytest.raises(InputError, match=words):
        fit(make, graph, [0], epochs=epochs)


class SeldomByNumPy(Layers):
    def forward(self, x, edge_index):
        hidden = self.first(x, edge_index)
        if self.training and np.random.rand() < 0.3:
            hidden = hidden * 0
        return self.second(hidden)


class ByPython(Layers):
    def forward(self, x, edge_index):
        scale = random.random() if self.training else 1.0
        return super().forward(x * scale, edge_index)


@pytest.mark.parametrize("make", [SeldomByNumPy, pytest.param(ByPython, marks=pytest.mark.slow)])
def test_other_random_numbers_belong_to_a_seed(graph, make):
    states = random.getstate(), np.random.get_state()[2]
    alone = fit(make, graph, [1], epochs=24)
    among = fit(make, graph, range(3), epochs=24)
    assert (random.getstate(), np.random.get_state()[2]) == states
    curve = alone.curves["train_loss"][0]
    assert torch.equal(curve, among.curves["train_loss"][1])
    assert len(curve.diff().sign().unique()) > 1  # it jumps


def test_defaults_of_torch_may_be_others(graph):
    torch.set_default_dtype(torch.float64)
    try:
        data = graph.clone()
        data.x = graph.x.double()
        result = fit(lambda: GCN(FEATURES, 8, 2, out_channels=CLASSES), data, [0], epochs=3)
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        again = fit(lambda: GCN(FEATURES, 8, 2, out_channels=CLASSES), graph, [0], epochs=3)
    assert result.epochs_run == again.epochs_run == [3]


def test_checkpoints_of_another_model_or_graph_are_refused(graph, tmp_path):
    def run(make=None, data=graph, **options):
        make = make or (lambda: GCN(FEATURES, 8, 2, out_channels=CLASSES))
        fit(make, data, [0], epochs=2, checkpoint=tmp_path / "c", **options)

    def other_start():
        model = GCN(FEATURES, 8, 2, out_channels=CLASSES)
        nn.init.ones_(model.convs[0].lin.weight)
        return model

    def half_frozen():
        model = GCN(FEATURES, 8, 2, out_channels=CLASSES)
        model.convs[0].requires_grad_(False)
        return model

    run()
    run()
    weighted = graph.clone()
    weighted.edge_attr = torch.rand(240, 2)
    for options in (
        {"make": lambda: GCN(FEATURES, 8, 2, out_channels=CLASSES, act="tanh")},
        {"make": lambda: GCN(FEATURES, 8, 2, out_channels=CLASSES, act=F.elu)},
        {"make": other_start},
        {"make": half_frozen},
        {"data": weighted},
        {"prepare": lambda data: (2 * data.x, data.edge_index)},
    ):
        with pytest.raises(InputError, match="other data or settings"):
            run(**options)


def test_rows_of_lazy_models_begin_with_the_same_weights(graph):
    def make():
        return Lazy()

    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = SAGEConv(-1, 8), nn.LazyLinear(CLASSES)

        def forward(self, x, edge_index):
            return self.head(self.conv(x, edge_index))

    found = compare(make, graph, [0], epochs=1, lr=0.0, weight_decay=0.0)
    plain = found.fits[None].models[0].state_dict()
    for gate in ("dr", "static", "constant"):
        gated = found.fits[gate].models[0].state_dict()
        assert all(torch.equal(gated[name], value) for name, value in plain.items())


def test_comparisons_of_a_model_with_itself_are_refused(graph):
    gcn = lambda: GCN(FEATURES, 8, 2, out_channels=CLASSES)  # noqa: E731
    for make in (lambda: insert_reweighting(gcn()), lambda unused: gcn()):
        with pytest.raises(InputError, match="same parameters"):
            compare(make, graph, [0, 1], epochs=1)
    with pytest.raises(InputError, match="found a grid"):
        compare(gcn, graph, [0, 1], epochs=1, grid={"lr": [0.1, 0.2]})
    with pytest.raises(InputError, match="None is the plain model"):
        compare(gcn, graph, [0], gates="plain")
    rows = compare(gcn, graph, [0], epochs=1, gates=(g for g in (None, "dr"))).rows
    assert list(rows) == [None, "dr"]
    with pytest.raises(InputError, match="convolutions"):
        compare(lambda: nn.Linear(FEATURES, CLASSES), graph, [0], epochs=10**9)


def test_a_comparison_goes_on_from_its_checkpoints(graph, tmp_path):
    make = lambda: GAT(FEATURES, 8, 2, out_channels=CLASSES)  # noqa: E731
    options = {"epochs": 2, "checkpoint": tmp_path / "c"}
    first = compare(make, graph, [0, 1], **options)
    again = compare(make, graph, [0, 1], **options)
    assert first.rows == again.rows
    assert len(list(tmp_path.iterdir())) >= 4
