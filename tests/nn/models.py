"""The models that the contract is tested on, a small graph, and what tests do with models."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from drgcn import nn
from drgcn.data import load

GATES = [None, "dr", "static", "constant"]

NODES, D, HIDDEN, CLASSES = 8, 6, 4, 3
ONE_WAY = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0, 2], [1, 2, 3, 4, 5, 6, 0, 3, 6]])
EDGES = torch.cat([ONE_WAY, ONE_WAY.flip(0)], dim=1)  # node 7 is isolated


@dataclass(frozen=True)
class Form:
    """A model in one of its forms.

    Attributes:
        name: Name of the model in experiments.
        options: Arguments of its class besides the widths.
        decayed: Beginnings of the names of the parameters under L2, gates apart.
        has_norm: It takes a ``norm``.
        graph_by_graph: It takes ``batch``, and graphs do not change each other's scores.
        sampled: It is trained on samples.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    decayed: tuple[str, ...] = ()
    has_norm: bool = True
    graph_by_graph: bool = False
    sampled: bool = False

    @property
    def model(self):
        return nn.model_class(self.name)

    def build(self, **options):
        widths = {"in_channels": D, "hidden_channels": HIDDEN, "out_channels": CLASSES}
        return self.model(**(widths | {"dropout": 0.0} | self.options | options))


_FIRST = ("weights.0",)
_ALONE = {"graph_by_graph": True}
_MIXHOP = {"hidden_channels": (4, 3, 2), "hidden_dropout": 0.0, "binarize": False}
_GENIE = ("embedding", "paths.", "weight", "bias")
_PUBLIC_GENIE = {
    **{"attention": "gat", "recurrent": True, "input_bias": True, "lazy": True, "stacked": False}
}
_SAGE = ("weights.", "classifier")

#: A new model is held to the contract by a line here.
FORMS = {
    "gcn": Form("gcn", {}, ("convs.0.",), **_ALONE),
    "gcn, pre-activation": Form("gcn", {"pre_activation": True}, ("convs.0.",), **_ALONE),
    "gat": Form("gat", {"heads": 2, "out_heads": 2}, ("convs.",), **_ALONE),
    "mixhop": Form("mixhop", _MIXHOP, ("convs.", "readout.weight"), has_norm=False),
    "chebyshev": Form("chebyshev", {}, ("convs.0.",)),  # one eigenvalue for all graphs
    "mlp": Form("mlp", {}, _FIRST, **_ALONE),
    "lgcn": Form("lgcn", {"growth": 2, "k": 3}, ("first.", "convs.", "last.")),
    "geniepath": Form("geniepath", {}, _GENIE, **_ALONE),
    "geniepath, lazy": Form("geniepath", {"lazy": True}, _GENIE, **_ALONE),
    "geniepath, public code": Form("geniepath", _PUBLIC_GENIE, _GENIE, **_ALONE),
    "graphsage": Form("graphsage", {}, _SAGE, sampled=True, **_ALONE),
    "graphsage, simple": Form("graphsage", {"form": "simple"}, _SAGE, sampled=True, **_ALONE),
    "fastgcn": Form("fastgcn", {}, _FIRST, sampled=True),
    "asgcn": Form("asgcn", {}, _FIRST, sampled=True),
    "asgcn, mix": Form("asgcn", {"form": "mix"}, _FIRST, sampled=True),
}


def one_at_a_time(usual, *corners, **axes):
    """Settings that depart from the usual in one axis each, and some that depart in several."""
    departures = [{name: value} for name, values in axes.items() for value in values]
    settings = [usual | change for change in [{}, *departures, *corners]]
    words = [
        "-".join(map(str, change.values())) for change in [{"": "usual"}, *departures, *corners]
    ]
    return pytest.mark.parametrize("setting", settings, ids=words)


def randomized(model, seed=1):
    """The model in float64, with no parameter and no running statistic at a trivial value."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.double().state_dict().items():
        if value.is_floating_point():
            draw = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            value.copy_(draw.abs() + 0.5 if name.endswith("running_var") else draw)
    return model


def gradients(out, model):
    """Of a random linear function of the output, by every parameter."""
    generator = torch.Generator().manual_seed(9)
    factors = torch.randn(out.shape, generator=generator, dtype=out.dtype)
    return torch.autograd.grad((out * factors).sum(), list(model.parameters()))


def lanes(models, *inputs):
    """Outputs of several models at once ``[models, ...]``, as ``fit`` computes them."""
    state = torch.func.stack_module_state(models)

    def call(parameters, buffers):
        return torch.func.functional_call(models[0], (parameters, buffers), inputs)

    return torch.vmap(call)(*state)


def every_second_kept(monkeypatch):
    """Replaces dropout by a mask that keeps every second entry; returns the inputs it saw."""
    seen = []

    def every_second(values, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return values
        seen.append(values)
        keep = torch.arange(values.numel()).view(values.shape) % 2 == 0
        return values * keep / (1 - p)

    monkeypatch.setattr(F, "dropout", every_second)
    return seen


def losses(make_model, optimizer=torch.optim.Adam, lr=0.02, epochs=60):
    """Training loss at every epoch of a plain loop on a small planted graph."""
    data = load("planted", nodes=120, features=16, labels_per_class=10, val_per_class=10)
    torch.manual_seed(0)
    model = make_model(data.num_features, 4)
    inputs = model.prepare(data)
    steps = optimizer(model.parameters(), lr=lr)
    found = []
    for _ in range(epochs):
        steps.zero_grad()
        loss = F.cross_entropy(model(*inputs)[data.train_mask], data.y[data.train_mask])
        loss.backward()
        steps.step()
        found.append(loss.item())
    return found
