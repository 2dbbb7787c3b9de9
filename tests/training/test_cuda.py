"""Training on a CUDA device; run with ``pytest -m gpu``."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import models

from drgcn.data import load, unite
from drgcn.errors import InputError
from drgcn.kernels import Recorded
from drgcn.nn import (
    ASGCN,
    GAT,
    GCN,
    LGCN,
    ChebNet,
    FastGCN,
    GraphSAGE,
    MixHop,
    SparseMatrix,
    normalized_adjacency,
    spmm,
)
from drgcn.nn.gat import attention_coefficients
from drgcn.nn.graph import neighborhoods
from drgcn.sampling import CSRGraph
from drgcn.sampling.layers import lookup
from drgcn.streams import random_uniform
from drgcn.training import StepwiseDecay, fit, load_fit
from drgcn.training.randomness import _factors_at, dropout_factors, levels_of

from .test_links import encoder
from .test_links import split as links
from .test_objectives import by_scikit_learn, by_torch
from .test_whole_graphs import Pooled
from .test_whole_graphs import parts as graph_lists

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(scope="module")
def data():
    return load("planted", nodes=600, labels_per_class=10, val_per_class=40)


@pytest.fixture(scope="module")
def calm():
    """Features of one scale: on loud ones attention saturates, and rounding grows fast."""
    options = {"nodes": 600, "labels_per_class": 10, "val_per_class": 40}
    return load("planted", normalize="standard", **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_product_and_its_gradient_equal_those_on_cpu(data, dtype):
    adj = normalized_adjacency(data.edge_index, data.num_nodes, dtype=dtype)
    x = torch.randn(data.num_nodes, 5, dtype=dtype, requires_grad=True)
    there = x.detach().cuda().requires_grad_()
    here_out, there_out = spmm(adj, x), spmm(adj.to("cuda"), there)
    torch.testing.assert_close(there_out.cpu(), here_out)
    here_out.square().sum().backward()
    there_out.square().sum().backward()
    torch.testing.assert_close(there.grad.cpu(), x.grad)


@pytest.mark.parametrize(
    ("reweight", "norm"), [(None, None), ("dr", None), ("dr", "batch"), ("static", "layer")]
)
def test_a_pass_is_recorded_as_a_graph_and_follows_the_cpu(data, reweight, norm, caplog):
    def make():
        return GCN(data.num_features, 16, 4, reweight=reweight, norm=norm)

    here = fit(make, data, range(3), epochs=60)
    there = fit(make, data, range(3), epochs=60, device="cuda")
    assert "cannot be recorded" not in caplog.text
    # The same random numbers on both: curves part only by rounding, slowly.
    for a, b in zip(here.curves["train_loss"], there.curves["train_loss"], strict=True):
        torch.testing.assert_close(a[:10], b[:10], rtol=1e-3, atol=1e-3)
    for a, b in zip(here.val_accuracy, there.val_accuracy, strict=True):
        assert abs(a - b) < 0.05


def test_replayed_epochs_equal_eager_epochs(data, monkeypatch):
    def run():
        make = lambda: GCN(data.num_features, 16, 4, reweight="dr")  # noqa: E731
        return fit(make, data, range(4), epochs=50, device="cuda")

    replayed = run()
    monkeypatch.setattr(Recorded, "_record", lambda self: setattr(self, "recordable", False))
    eager = run()
    for a, b in zip(replayed.curves["train_loss"], eager.curves["train_loss"], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_models_that_wait_for_the_host_still_train(data):
    class Waiting(GCN):
        def forward(self, *inputs):
            out = super().forward(*inputs)
            torch.cuda.synchronize()
            return out

    result = fit(lambda: Waiting(data.num_features, 16, 4), data, [0], epochs=10, device="cuda")
    assert result.epochs_run == [10]


def test_the_same_pass_twice_gives_the_same_bits(data):
    make = lambda: GCN(data.num_features, 16, 4, reweight="dr")  # noqa: E731
    first, second = (fit(make, data, range(5), epochs=40, device="cuda") for _ in range(2))
    assert equal_weights(first, second)


def equal_weights(first, second):
    return all(
        torch.equal(a, b)
        for one, other in zip(first.models, second.models, strict=True)
        for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize(("lanes", "width"), [(3, 5), (20, 40)])
def test_largest_neighbours_and_their_gradients_equal_those_on_cpu(data, lanes, width):
    graph = LGCN.matrix(data.edge_index, data.num_nodes, torch.float32)
    x = torch.randn(lanes, data.num_nodes, width)
    x[:, 7:11] = x[:, 6:7]  # equal values, of which the first goes first
    factors = torch.randn(lanes, data.num_nodes, 8, width)

    def run(device):
        there = graph.to(device)
        select = torch.vmap(lambda v: there.select(v, 8))
        features = x.to(device).requires_grad_()
        out = select(features)
        (gradient,) = torch.autograd.grad((out * factors.to(device)).sum(), features)
        return out.detach().cpu(), gradient.cpu()

    (out, gradient), (expected, wanted) = run("cuda"), run("cpu")
    assert torch.equal(out, expected)
    torch.testing.assert_close(gradient, wanted)


def test_lgcn_is_recorded_as_a_graph_and_twice_the_same(data, caplog):
    make = lambda: LGCN(data.num_features, 8, 4, reweight="dr")  # noqa: E731
    first, second = (fit(make, data, range(5), epochs=40, device="cuda") for _ in range(2))
    assert "cannot be recorded" not in caplog.text
    assert equal_weights(first, second)


@pytest.mark.parametrize("k", [1, 3, 8, 200])
def test_lanes_of_a_sparse_product_equal_those_on_cpu(data, k):
    pattern = neighborhoods(data.edge_index, data.num_nodes)
    draw = torch.Generator().manual_seed(0)
    values = torch.randn(2, 3, pattern.nnz, generator=draw, dtype=torch.float64)
    x = torch.randn(2, 3, data.num_nodes, k, generator=draw, dtype=torch.float64)

    def run(device):
        there = pattern.to(device)
        leaves = [t.to(device).requires_grad_() for t in (values, x)]
        product = torch.vmap(torch.vmap(lambda v, y: spmm(SparseMatrix(there, v), y)))
        out = product(*leaves)
        return [t.cpu() for t in (out, *torch.autograd.grad(out.square().sum(), leaves))]

    for here, there in zip(run("cpu"), run("cuda"), strict=True):
        torch.testing.assert_close(there, here)


def test_attention_and_its_gradients_equal_those_on_cpu(data):
    hub = torch.stack([torch.arange(500), torch.zeros(500, dtype=torch.int64)])
    edges = torch.cat([data.edge_index, hub], dim=1)  # a neighbourhood of more than one warp
    pattern = neighborhoods(edges, data.num_nodes)
    draw = torch.Generator().manual_seed(0)
    scores = 20 * torch.randn(2, 5, 3, data.num_nodes, generator=draw, dtype=torch.float64)
    factors = torch.randn(5, 3, pattern.nnz, generator=draw, dtype=torch.float64)

    def run(device):
        there = pattern.to(device)
        leaves = [t.to(device).requires_grad_() for t in scores]
        out = torch.vmap(lambda t, s: attention_coefficients(t, s, there))(*leaves)
        total = (out * factors.to(device)).sum()
        return [t.cpu() for t in (out, *torch.autograd.grad(total, leaves))]

    for here, there in zip(run("cpu"), run("cuda"), strict=True):
        torch.testing.assert_close(there, here)


OTHERS = {
    "gat": lambda data: GAT(data.num_features, 16, 4, reweight="dr"),
    "gat, averaged": lambda data: GAT(data.num_features, 16, 4, out_heads=8),
    "gat, ppi form": lambda data: GAT(
        data.num_features, 16, 4, num_layers=3, heads=4, out_heads=6, dropout=0.1, residual=True
    ),
    "mixhop": lambda data: MixHop(data.num_features, (6, 6, 6), 4, binarize=False, reweight="dr"),
    "chebyshev": lambda data: ChebNet(data.num_features, 16, 4),
    "graph norm": lambda data: GCN(data.num_features, 16, 4, norm="graph"),
    "pair norm": lambda data: GCN(data.num_features, 16, 4, norm="pair"),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS.keys())
def test_every_model_is_recorded_and_follows_the_cpu(calm, make, caplog):
    here = fit(lambda: make(calm), calm, range(3), epochs=30)
    there = fit(lambda: make(calm), calm, range(3), epochs=30, device="cuda")
    assert "cannot be recorded" not in caplog.text
    for a, b in zip(here.curves["train_loss"], there.curves["train_loss"], strict=True):
        torch.testing.assert_close(a[:10], b[:10], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["gat", "mixhop", "chebyshev"])
def test_the_same_pass_of_any_model_twice_gives_the_same_bits(data, name):
    make = lambda: OTHERS[name](data)  # noqa: E731
    first, second = (fit(make, data, range(5), epochs=30, device="cuda") for _ in range(2))
    assert equal_weights(first, second)


def test_a_learning_rate_that_changes_does_so_in_recorded_epochs(data, caplog):
    def run(device):
        return fit(
            lambda: MixHop(
                data.num_features,
                (6, 6, 6),
                4,
                dropout=0.0,
                hidden_dropout=0.0,
                binarize=False,
            ),
            data,
            range(2),
            epochs=40,
            optimizer=torch.optim.SGD,
            lr=0.5,
            schedule=StepwiseDecay(every=2, share=0.05),
            device=device,
        )

    here, there = run("cpu"), run("cuda")
    assert "cannot be recorded" not in caplog.text
    for a, b in zip(here.curves["train_loss"], there.curves["train_loss"], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("graphs_per_step", [None, 2])
def test_several_graphs_and_labels_follow_the_cpu(graphs_per_step, caplog):
    graphs = [
        load("planted", nodes=300, labels_per_class=6, val_per_class=12, seed=seed)
        for seed in range(5)
    ]
    for graph in graphs:
        graph.y = torch.nn.functional.one_hot(graph.y, 4).float()
    data = unite(graphs[:3], graphs[3:4], graphs[4:])

    def run(device):
        return fit(
            lambda: GAT(data.num_features, 16, 4, dropout=0.1, reweight="dr"),
            data,
            range(3),
            loss="bce",  # and not classes, one of which every row names
            epochs=20,
            graphs_per_step=graphs_per_step,
            device=device,
        )

    here, there = run("cpu"), run("cuda")
    assert there.metric == "micro-F1"
    assert "cannot be recorded" not in caplog.text
    for a, b in zip(here.curves["train_loss"], there.curves["train_loss"], strict=True):
        torch.testing.assert_close(a[:10], b[:10], rtol=1e-3, atol=1e-3)


def test_seeds_are_cut_into_passes_when_memory_is_short(calm, monkeypatch):
    make = lambda: GAT(calm.num_features, 64, 4)  # noqa: E731
    whole = fit(make, calm, range(8), epochs=30, device="cuda")
    real, found = torch.cuda.mem_get_info, []
    for power in range(30, 15, -1):
        free = 1 << power
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, real(device)[1]))  # noqa: B023
        seen = []
        try:
            parts = fit(make, calm, range(8), epochs=30, device="cuda", progress=seen.append)
        except InputError as error:
            assert "room for one seed" in str(error)  # noqa: PT017
            break
        assert {now.seeds for now in seen} == {8}
        found.append(max(now.seeds_at_once for now in seen))
        for a, b in zip(whole.curves["train_loss"], parts.curves["train_loss"], strict=True):
            torch.testing.assert_close(a[:10], b[:10], rtol=1e-3, atol=1e-3)
    else:
        pytest.fail("one seed fits into 64 KiB")
    assert found[0] == 8
    assert found == sorted(found, reverse=True)
    assert min(found) < 8


@pytest.mark.parametrize(
    ("p", "dtype"),
    [(0.0, torch.float32), (0.35, torch.float32), (0.9, torch.float32), (0.6, torch.float64)],
)
def test_masks_are_the_same_bits_as_on_cpu(p, dtype):
    keys = torch.tensor([0, 1, -5, 2**62 + 17, -(2**63)])
    here = dropout_factors(keys, 100_003, p, dtype)
    assert torch.equal(dropout_factors(keys.cuda(), 100_003, p, dtype).cpu(), here)


# Models that sample


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
def scaled():
    options = {"nodes": 600, "labels_per_class": 20, "val_per_class": 40}
    return load("planted", normalize="standard", **options)


def sampling_model(name, scaled, **options):
    model, usual = MODELS[name]
    return lambda: model(scaled.num_features, 16, 4, **usual, **options)


@pytest.mark.parametrize(
    ("name", "norm"),
    [*((name, None) for name in MODELS), ("fastgcn", "batch"), ("asgcn", "layer")],
)
def test_a_pass_over_samples_is_recorded_and_follows_the_cpu(scaled, name, norm, caplog):
    make = sampling_model(name, scaled, reweight="dr", norm=norm)
    here = fit(make, scaled, range(2), epochs=12, **SAMPLED)
    there = fit(make, scaled, range(2), epochs=12, device="cuda", **SAMPLED)
    assert "cannot be recorded" not in caplog.text
    # The same random numbers on both: curves part only by rounding, or by a draw on the edge, and
    # norms over few rows make more of either.
    far = 0.1 if norm == "batch" else 0.02
    for a, b in zip(here.curves["train_loss"], there.curves["train_loss"], strict=True):
        torch.testing.assert_close(a[:4], b[:4], rtol=far, atol=far)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_pass_over_samples_twice_gives_the_same_numbers(scaled, name):
    make = sampling_model(name, scaled, reweight="dr")
    passes = [fit(make, scaled, range(3), epochs=20, device="cuda", **SAMPLED) for _ in range(2)]
    first, second = (torch.stack(p.curves["train_loss"]) for p in passes)
    torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weighted", [True, False])
def test_crossings_equal_those_on_cpu(scaled, weighted):
    adj = normalized_adjacency(scaled.edge_index, scaled.num_nodes)
    values = adj.values if weighted else None
    graph = CSRGraph(adj.pattern.crow, adj.pattern.col, scaled.num_nodes, values)
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


@pytest.mark.parametrize("network", [models.GCN, models.GAT, models.GraphSAGE, models.GIN])
def test_models_of_pyg_train_and_leave_the_device_as_good_as_before(data, network):
    """Self-loops added in every pass depend on values, which no recording can follow."""

    def make():
        return network(data.num_features, 8, num_layers=2, out_channels=4, dropout=0.5)

    here = fit(make, data, range(3), epochs=30)
    there = fit(make, data, range(3), epochs=30, device="cuda")
    for a, b in zip(here.curves["train_loss"], there.curves["train_loss"], strict=True):
        torch.testing.assert_close(a[:8], b[:8], rtol=1e-2, atol=1e-2)
    torch.rand(5, device="cuda")  # the generator answers
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    ours = fit(lambda: GCN(data.num_features, 8, 4), data, range(3), epochs=30, device="cuda")
    assert ours.epochs_run == [30] * 3


def test_a_refused_call_leaves_the_device_as_good_as_before(data):
    wrong = data.clone()
    wrong.x = data.x[:, :5]
    make = lambda: models.GCN(data.num_features, 8, 2, out_channels=4)  # noqa: E731
    with pytest.raises(InputError, match="raised"):
        fit(make, wrong, range(2), epochs=5, device="cuda")
    few = lambda: models.GCN(data.num_features, 8, 2, out_channels=2)  # noqa: E731
    with pytest.raises(InputError, match="at least 4 outputs"):  # no assertion of the device
        fit(few, data, range(2), epochs=5, device="cuda")
    assert fit(make, data, range(2), epochs=5, device="cuda").epochs_run == [5, 5]


# cuDNN packs the weights of one of several networks anew at every call.
@pytest.mark.filterwarnings("ignore:RNN module weights")
def test_models_that_vmap_cannot_follow_train_one_after_the_other(data):
    make = lambda: models.GCN(data.num_features, 8, 2, out_channels=4, jk="lstm")  # noqa: E731
    alone = fit(make, data, [1], epochs=5, device="cuda")
    among = fit(make, data, range(3), epochs=5, device="cuda")
    torch.testing.assert_close(alone.curves["train_loss"][0], among.curves["train_loss"][1])


def test_predictions_and_saved_results_work_from_the_device(data, tmp_path):
    make = lambda: models.GCN(data.num_features, 8, 2, out_channels=4)  # noqa: E731
    result = fit(make, data, range(2), epochs=5, device="cuda")
    loaded = load_fit(result.save(tmp_path / "fit"), make)
    torch.testing.assert_close(
        loaded.predict(data).mean, result.predict(data).mean.cpu(), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("metric", ["ROC-AUC", "average precision", "MRR", "Hits@5"])
def test_links_are_learnt_as_on_cpu(metric):
    parts = links(drawn=True)
    here, there = (
        fit(encoder, parts, range(5), epochs=25, metric=metric, device=device)
        for device in ("cpu", "cuda")
    )
    for one, other in zip(here.curves["train_loss"], there.curves["train_loss"], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    assert there.test_accuracy == pytest.approx(here.test_accuracy, abs=0.05)


def test_whole_graphs_are_learnt_as_on_cpu():
    lists = graph_lists(20, 10, 10)
    here, there = (
        fit(Pooled, lists, range(5), epochs=25, graphs_per_step=8, device=device)
        for device in ("cpu", "cuda")
    )
    for one, other in zip(here.curves["train_loss"], there.curves["train_loss"], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    "metric", [by_scikit_learn, by_torch], ids=["read by the host", "recorded"]
)
def test_functions_are_watched_as_on_cpu(data, metric):
    weight = torch.tensor([1.0, 2.0, 1.0, 0.5])
    options = {"loss": partial(F.cross_entropy, weight=weight), "metric": metric, "epochs": 25}
    make = partial(GCN, data.num_features, 8, 4)
    here, there = (fit(make, data, range(3), device=d, **options) for d in ("cpu", "cuda"))
    assert there.val_accuracy == pytest.approx(here.val_accuracy, abs=0.03)


@pytest.mark.parametrize("network", ["ours", "of PyG"])
def test_a_grid_in_one_pass_follows_its_settings_alone(data, network, caplog):
    def make():
        if network == "ours":
            return GCN(data.num_features, 8, 4, dropout=0.5, reweight="dr")
        return models.GCN(data.num_features, 8, num_layers=2, out_channels=4, dropout=0.5)

    grid = {
        "lr": [0.005, 0.02],
        "weight_decay": [0.0, 5e-3],
        "dropout": [0.2, 0.5],
        "label_smoothing": [0.0, 0.1],
    }
    found = fit(make, data, range(2), epochs=30, device="cuda", grid=grid)
    assert len(found.seeds) == 32
    assert "CUDA graph" not in caplog.text
    for settings in found.settings[::10]:
        here = fit(make, data, range(2), epochs=30, grid=[settings])
        there = found.where(**settings)
        for a, b in zip(here.curves["train_loss"], there.curves["train_loss"], strict=True):
            torch.testing.assert_close(a[:10], b[:10], rtol=5e-3, atol=5e-3)


def test_rates_of_dropout_per_lane_are_those_on_cpu():
    keys, levels = torch.arange(5) * 7, levels_of([0.0, 0.1, 0.5, 0.75, 0.99])
    for dtype in (torch.float32, torch.float64):
        here = _factors_at(keys, levels, 10_003, dtype)
        assert torch.equal(_factors_at(keys.cuda(), levels.cuda(), 10_003, dtype).cpu(), here)
