"""Sampled models on a CUDA device; run with ``pytest -m gpu``."""

import pytest
import torch

from drgcn.data import load
from drgcn.nn import ASGCN, FastGCN, GraphSAGE, normalized_adjacency
from drgcn.sampling import CSRGraph
from drgcn.sampling.layers import lookup
from drgcn.streams import random_uniform
from drgcn.training import fit

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

MODELS = {
    "fastgcn": (FastGCN, {"count": 40}),
    "fastgcn, all nodes": (FastGCN, {"count": 40, "candidates": "all"}),
    "ladies": (FastGCN, {"count": 40, "sampler": "layer-dependent", "num_layers": 3}),
    "asgcn": (ASGCN, {"count": 40}),
    "asgcn, mix": (ASGCN, {"count": 40, "form": "mix"}),
    "graphsage": (GraphSAGE, {"fan_outs": (4, 3)}),
    "graphsage, simple": (GraphSAGE, {"fan_outs": (4, 3), "form": "simple"}),
}
SAMPLED = {"batch_size": 16, "inductive": "train", "lr": 0.005}


@pytest.fixture(scope="module")
def data():
    options = {"nodes": 600, "labels_per_class": 20, "val_per_class": 40}
    return load("planted", normalize="standard", **options)


def make_from(name, data, **options):
    model, usual = MODELS[name]
    return lambda: model(data.num_features, 16, 4, **usual, **options)


@pytest.mark.parametrize("norm", [None, "batch", "layer"])
@pytest.mark.parametrize("name", MODELS)
def test_a_pass_is_recorded_as_a_graph_and_follows_the_cpu(data, name, norm, caplog):
    make = make_from(name, data, reweight="dr", norm=norm)
    here = fit(make, data, range(2), epochs=12, **SAMPLED)
    there = fit(make, data, range(2), epochs=12, device="cuda", **SAMPLED)
    assert "cannot be recorded" not in caplog.text
    # The same random numbers on both: curves part only by rounding, or by a draw on the edge, and
    # norms over few rows make more of either.
    far = 0.1 if norm == "batch" else 0.02
    for a, b in zip(here.curves["train_loss"], there.curves["train_loss"], strict=True):
        torch.testing.assert_close(a[:4], b[:4], rtol=far, atol=far)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_pass_twice_gives_the_same_numbers(data, name):
    make = make_from(name, data, reweight="dr")
    passes = [fit(make, data, range(3), epochs=20, device="cuda", **SAMPLED) for _ in range(2)]
    first, second = (torch.stack(p.curves["train_loss"]) for p in passes)
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weighted", [True, False])
def test_crossings_equal_those_on_cpu(data, weighted):
    adj = normalized_adjacency(data.edge_index, data.num_nodes)
    values = adj.values if weighted else None
    graph = CSRGraph(adj.pattern.crow, adj.pattern.col, data.num_nodes, values)
    rows, cols = torch.randint(600, (3, 50)), torch.randint(600, (3, 700))
    here = torch.vmap(lambda r, c: lookup(graph, r, c))(rows, cols)
    moved = graph.to("cuda")
    there = torch.vmap(lambda r, c: lookup(moved, r, c))(rows.cuda(), cols.cuda())
    assert torch.equal(there.cpu(), here)


def test_uniform_numbers_are_the_same_bits_as_on_cpu():
    keys = torch.tensor([0, 1, -5, 2**62 + 17, -(2**63)])
    for dtype in (torch.float32, torch.float64):
        here = random_uniform(keys, 1001, dtype)
        assert torch.equal(random_uniform(keys.cuda(), 1001, dtype).cpu(), here)
