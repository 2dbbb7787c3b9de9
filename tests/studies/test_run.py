"""Runs of an experiment: its model built, seeds trained, results recorded."""

import json
import os
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from drgcn import records
from drgcn.errors import DrgcnWarning, InputError, NoResultError
from drgcn.nn import (
    ASGCN,
    GAT,
    GCN,
    LGCN,
    MLP,
    ChebNet,
    FastGCN,
    GeniePath,
    GraphSAGE,
    MixHop,
    SparseMatrix,
    normalized_adjacency,
)
from drgcn.nn.graph import NodeGroups
from drgcn.stability import gate_saturation, stability_k
from drgcn.studies import run as runner
from drgcn.studies.build import build
from drgcn.studies.experiment import MODELS, Experiment, recipe
from drgcn.studies.records import RunRecord, load_records
from drgcn.studies.run import layer_states, run, run_grid
from drgcn.training import BestValidation, Patience, StepwiseDecay, fit
from drgcn.training import checkpoint as checkpointing

from ..training.graphs import FEATURES, several


def experiment(**options):
    return Experiment("planted", "random", hidden_channels=8, epochs=10, **options)


def test_seeds_already_recorded_are_not_trained_again(tiny, tmp_path):
    first = run(experiment(), tiny, range(3), tmp_path)
    assert first.trained == (0, 1, 2)
    second = run(experiment(), tiny, range(5), tmp_path)
    assert second.trained == (3, 4)
    assert list(second.seeds) == [0, 1, 2, 3, 4]
    assert {s: second.seeds[s] for s in range(3)} == first.seeds
    third = run(experiment(), tiny, range(4), tmp_path)
    assert third.trained == ()
    assert len(load_records(tmp_path)) == 2


def test_an_outcome_names_its_builds_and_prefers_this_one(tiny, tmp_path):
    first = run(experiment(), tiny, range(2), tmp_path)
    (path,) = first.paths
    assert first.builds == {RunRecord.read(path).build}
    record = RunRecord.read(path)
    older = replace(record, environment=record.environment | {"source": "another"})
    older.save(tmp_path, f"zz-{path.name}")  # read last
    assert run(experiment(), tiny, range(2), tmp_path) == replace(first, trained=())
    path.unlink()
    more = run(experiment(), tiny, range(3), tmp_path)
    assert more.trained == (2,)
    assert more.builds == {record.build, older.build}


def test_records_of_seeds_added_later_equal_those_of_one_go(tiny, tmp_path):
    run(experiment(), tiny, range(2), tmp_path / "parts")
    parts = run(experiment(), tiny, range(6), tmp_path / "parts")
    whole = run(experiment(), tiny, range(6), tmp_path / "whole")
    assert parts.seeds == whole.seeds


def test_another_experiment_or_other_data_is_trained(tiny, tmp_path):
    from drgcn.data import load

    run(experiment(), tiny, [0], tmp_path)
    assert run(experiment(reweight="dr"), tiny, [0], tmp_path).trained == (0,)
    other = load("planted", nodes=200, labels_per_class=6, val_per_class=12, seed=1)
    assert run(experiment(), other, [0], tmp_path).trained == (0,)


@pytest.mark.parametrize(("reweight", "layers"), [(None, 0), ("dr", 2), ("static", 2)])
def test_k_and_saturation_are_recorded_for_every_gated_layer(tiny, tmp_path, reweight, layers):
    result = run(experiment(reweight=reweight), tiny, [0], tmp_path).seeds[0]
    (record,) = load_records(tmp_path)
    assert record.seeds[0] == result
    assert len(result.k) == len(result.saturation) == layers
    assert all(0 <= share <= 1 for share in result.saturation)


def test_a_test_curve_adds_what_other_rules_would_report_and_changes_nothing(
    tiny, tmp_path, monkeypatch
):
    curves = {}

    def watched(*args, **options):
        result = fit(*args, **options)
        curves.update(result.curves)
        return result

    monkeypatch.setattr(runner, "fit", watched)
    rule = {"rule": "patience", "watch": "accuracy"}
    plain = run(experiment(**rule), tiny, [1], tmp_path).seeds[1]
    assert "test_accuracy" not in curves
    assert plain.best_test is plain.best_renewed_test is None
    found = run(experiment(**rule, test_curve=True), tiny, [1], tmp_path).seeds[1]
    assert replace(found, best_test=None, best_renewed_test=None) == plain
    val, test = (curves[name][0].tolist() for name in ("val_accuracy", "test_accuracy"))
    renewed = [e for e in range(10) if val[e] == max(val[: e + 1])]
    assert test[found.best_epoch - 1] == pytest.approx(found.test_accuracy, abs=1e-6)
    assert found.best_epoch - 1 == renewed[-1]
    assert found.best_renewed_test == pytest.approx(max(test[e] for e in renewed), abs=1e-6)
    assert found.best_test == pytest.approx(max(test), abs=1e-6)
    by_curve = {r.experiment.test_curve: r.dumps() for r in load_records(tmp_path)}
    assert "best_test" in by_curve[True]
    assert "best_test" not in by_curve[False]
    assert "test_curve" not in by_curve[False]


@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize("before", ["none", "ieee", "tf32"])
def test_products_have_the_precision_of_the_experiment_while_it_trains(
    tiny, tmp_path, monkeypatch, precision, before
):
    seen, products = [], torch.backends.cuda.matmul

    def watched(*args, **options):
        seen.append(products.fp32_precision)
        return fit(*args, **options)

    monkeypatch.setattr(runner, "fit", watched)
    # As a user sets it: reading the older ``allow_tf32`` raises from then on.
    usual, products.fp32_precision = products.fp32_precision, before
    try:
        run(experiment(precision=precision), tiny, [0], tmp_path)
        assert products.fp32_precision == before
    finally:
        products.fp32_precision = usual
    assert seen == ["tf32" if precision == "tf32" else "ieee"]
    (record,) = load_records(tmp_path)
    assert record.experiment.precision == precision
    assert ("precision" in record.dumps()) == (precision == "tf32")


def test_a_constant_gate_has_k_one(tiny, tmp_path):
    assert run(experiment(reweight="constant"), tiny, [0], tmp_path).seeds[0].k == [1.0, 1.0]


def test_a_record_says_where_and_on_what_it_was_made(tiny, tmp_path):
    run(experiment(), tiny, [0], tmp_path)
    (record,) = load_records(tmp_path)
    assert record.data["content_hash"] == tiny.dataset.content_hash
    assert {"torch", "torch_geometric", "drgcn", "source", "device"} <= record.environment.keys()
    assert record.curve_epochs == [1, 2, 5, 10]
    assert len(record.seeds[0].curve_train_loss) == 4


def test_a_record_knows_what_a_guess_reaches(tiny, tmp_path):
    (path,) = run(experiment(), tiny, range(1), tmp_path).paths
    tested = tiny.y[tiny.test_mask]
    data = RunRecord.read(path).data
    assert data["guess"] == pytest.approx(float(tested.bincount().max()) / len(tested), abs=1e-6)
    assert data["guess_nodes"] == len(tested)


def test_nothing_is_left_but_the_record(tiny, tmp_path):
    outcome = run(experiment(), tiny, [0], tmp_path, checkpoint_every=0)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == list(outcome.paths)


def test_training_that_diverges_leaves_no_checkpoint(tiny, tmp_path):
    with pytest.raises(NoResultError, match="diverged"):
        run(experiment(lr=1e30), tiny, [0], tmp_path, checkpoint_every=0)
    assert not list(tmp_path.rglob("*.safetensors*"))


@pytest.mark.parametrize("seconds", [-1e6, 1e6])
@pytest.mark.parametrize("several", [False, True])
def test_a_checkpoint_left_by_a_kill_after_the_record_goes_whatever_the_clock_says(
    tiny, tmp_path, monkeypatch, seconds, several
):
    """And those of another process, which trains other seeds, stay."""
    rates = [replace(experiment(), lr=lr) for lr in ((0.01, 0.02) if several else (0.01,))]

    def train(seeds):
        if several:
            return run_grid(rates, tiny, seeds, tmp_path)
        return [run(rates[0], tiny, seeds, tmp_path)]

    with monkeypatch.context() as killed:
        killed.setattr("drgcn.studies.run.clear_checkpoint", lambda *_: None)
        train([0])
    left = set(tmp_path.glob(".checkpoints/*"))
    with monkeypatch.context() as killed:
        killed.setattr("drgcn.studies.run._Records.add", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train([7])
    other = set(tmp_path.glob(".checkpoints/*")) - left
    assert len(left) == len(other) == len(rates)
    for path in (*left, *other):
        os.utime(path, (0, time.time() + seconds))
    train([0])  # nothing to do but that
    assert set(tmp_path.glob(".checkpoints/*")) == other
    train([1])
    assert set(tmp_path.glob(".checkpoints/*")) == other
    train([7])
    assert list(tmp_path.glob(".checkpoints/*")) == []


def test_of_two_processes_at_the_same_work_the_slower_one_takes_the_record_of_the_other(
    tiny, tmp_path, monkeypatch
):
    """The other one ends, and clears the checkpoints, at the worst instants."""
    alone = run(experiment(), tiny, [0], tmp_path / "alone")
    load = checkpointing.load_checkpoint

    def cleared(path, fingerprint=""):
        path.unlink(missing_ok=True)
        return load(path, fingerprint)

    write = records.write_once

    def beaten(path, content):
        write(path, content)
        return write(path, content)

    with pytest.raises(KeyboardInterrupt):
        run(experiment(), tiny, [0], tmp_path / "out", progress=interrupt, checkpoint_every=0)
    monkeypatch.setattr("drgcn.training.trainer.load_checkpoint", cleared)
    monkeypatch.setattr(records, "write_once", beaten)
    found = run(experiment(), tiny, [0], tmp_path / "out")
    assert found.seeds == alone.seeds
    assert len(found.paths) == 1
    assert [p for p in (tmp_path / "out").rglob("*") if p.is_file()] == list(found.paths)


def interrupt(*_):
    raise KeyboardInterrupt


# Several experiments at once


def facts(outcome):
    """What the record of an outcome says, but for the times, and its name."""
    (path,) = outcome.paths
    written = json.loads(path.read_text())
    return path.name, {
        k: v for k, v in written.items() if k not in ("seconds", "started", "sha256")
    }


@pytest.mark.parametrize(
    "model", [pytest.param(m, marks=[pytest.mark.slow] * (m != "gcn")) for m in MODELS]
)
def test_several_experiments_leave_the_records_of_each_by_itself_to_the_bit(tiny, tmp_path, model):
    usual = recipe("planted", "random", model, reweight="dr", epochs=3)
    settings = [(0.01, 0.5, 0.0), (0.05, 0.3, 1e-3), (0.05, 0.0, 1e-2)]
    rows = [replace(usual, lr=a, dropout=b, weight_decay=c) for a, b, c in settings]
    found = run_grid(rows, tiny, [1, 6], tmp_path / "grid")
    for row, outcome in zip(rows, found, strict=True):
        alone = run(row, tiny, [1, 6], tmp_path / "alone")
        assert outcome.seeds == alone.seeds
        assert facts(outcome) == facts(alone)
    files = [path for path in (tmp_path / "grid").rglob("*") if path.is_file()]
    assert len(files) == len(settings)


@pytest.fixture
def passes(monkeypatch):
    """Calls of fit: width of the network, settings of the lanes, and seeds."""
    calls = []

    def noted(make, data, seeds, *, grid=None, **options):
        calls.append((make.args[0].hidden_channels, grid, tuple(seeds)))
        return fit(make, data, seeds, grid=grid, **options)

    monkeypatch.setattr(runner, "fit", noted)
    return calls


def rows_of(*settings):
    return [replace(experiment(), epochs=2, **one) for one in settings]


def test_experiments_of_one_shape_share_a_pass(tiny, tmp_path, passes):
    rows = rows_of(
        {"lr": 0.1},
        {"hidden_channels": 4, "lr": 0.1},
        {"dropout": 0.2},
        {"dropout": 0.0},
        {"hidden_channels": 4},
    )
    found = run_grid(rows, tiny, [0, 1], tmp_path)
    assert [(width, len(grid)) for width, grid, _ in passes] == [(8, 2), (4, 2), (8, 1)]
    assert [outcome.experiment for outcome in found] == rows


def test_only_what_is_missing_of_several_experiments_is_trained(tiny, tmp_path, passes):
    rows = rows_of({"lr": 0.1}, {"lr": 0.2}, {"lr": 0.3}, {"hidden_channels": 4})
    run(rows[1], tiny, [0], tmp_path)
    run(rows[2], tiny, [0, 1], tmp_path)
    passes.clear()
    found = run_grid(rows, tiny, [0, 1], tmp_path)
    seeds = [(width, [lane["lr"] for lane in grid], own) for width, grid, own in passes]
    assert seeds == [(8, [0.1], (0, 1)), (8, [0.2], (1,)), (4, [0.01], (0, 1))]
    assert [outcome.trained for outcome in found] == [(0, 1), (1,), (), (0, 1)]
    passes.clear()
    again = run_grid([*rows, rows[0]], tiny, [0, 1], tmp_path)
    assert passes == []
    assert [o.seeds for o in again] == [*(o.seeds for o in found), found[0].seeds]


def test_a_pass_of_several_experiments_goes_on_from_its_checkpoints(tiny, tmp_path, monkeypatch):
    rows = rows_of({"lr": 0.1}, {"lr": 0.2})

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "_record", killed)
        with pytest.raises(KeyboardInterrupt):
            run_grid(rows, tiny, [0], tmp_path)
    assert load_records(tmp_path) == []
    monkeypatch.setattr("drgcn.training.trainer.EpochRunner.run", killed)
    found = run_grid(rows, tiny, [0], tmp_path)
    assert [len(outcome.paths) for outcome in found] == [1, 1]
    assert list((tmp_path / ".checkpoints").iterdir()) == []


def test_one_that_diverges_does_not_keep_the_others_from_their_records(tiny, tmp_path):
    bad, good = run_grid(rows_of({"lr": 1e30}, {"lr": 0.1}), tiny, [0, 1], tmp_path)
    assert "diverged for seeds [0, 1]" in bad.reason
    assert (bad.seeds, bad.paths) == ({}, ())
    assert good.reason == ""
    assert len(load_records(tmp_path)) == 1


def test_progress_of_several_passes_is_one(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("drgcn.training.trainer._REPORT_EVERY", 0.0)
    seen = []
    rows = rows_of({"lr": 0.1}, {"lr": 0.2}, {"hidden_channels": 4})
    run_grid(rows, tiny, [0, 1], tmp_path, progress=seen.append)
    done = [now.epochs_done for now in seen]
    assert done == sorted(done)
    assert done[-1] == 3 * 2 * 2
    assert {now.epochs_in_all for now in seen} == {3 * 2 * 2}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_several_experiments_in_one_pass_on_cuda_are_those_by_themselves(tiny, tmp_path):
    rows = rows_of({"lr": 0.01}, {"lr": 0.05, "dropout": 0.2}, {"weight_decay": 0.0})
    found = run_grid(rows, tiny, range(3), tmp_path / "grid", device="cuda")
    for row, outcome in zip(rows, found, strict=True):
        alone = run(row, tiny, range(3), tmp_path / "alone", device="cuda")
        for seed, result in outcome.seeds.items():
            expected = alone.seeds[seed].curve_train_loss
            assert result.curve_train_loss == pytest.approx(expected, rel=1e-2)


# Damaged records


@pytest.mark.parametrize("name", ["other-seeds-0-0.json", None])
def test_a_damaged_record_is_named_and_left_and_training_goes_on(tiny, tmp_path, name):
    """Also one that has the very name of the record to be written."""
    whole = run(experiment(), tiny, range(2), tmp_path / "whole")
    out = tmp_path / "out"
    out.mkdir()
    damaged = out / (name or whole.paths[0].name)
    damaged.write_text(whole.paths[0].read_text()[:500])
    with pytest.warns(DrgcnWarning, match=damaged.name):
        first = run(experiment(), tiny, range(2), out)
    assert first.trained == (0, 1)
    assert first.seeds == whole.seeds
    assert first.paths != (damaged,)
    assert all(path.exists() for path in first.paths)
    assert damaged.read_text() == whole.paths[0].read_text()[:500]
    with pytest.warns(DrgcnWarning, match=damaged.name):
        again = run(experiment(), tiny, range(2), out)
    assert again.trained == ()
    assert (again.seeds, again.paths) == (first.seeds, first.paths)


# Several graphs


@pytest.fixture(scope="module")
def union():
    return several()


def k_by_hand(model, data, graphs):
    """K of every layer on every graph, each graph by itself; nothing where it is undefined."""
    found = []
    for g in graphs:
        nodes = (data.graph == g).nonzero().flatten()
        inside = torch.isin(data.edge_index[0], nodes)
        layers = model.layers(data.x[nodes], data.edge_index[:, inside] - nodes[0])
        found.append([stability_k(h, s) for h, s, _ in layers])
    return found


@pytest.mark.parametrize("layout", [lambda x: x, SparseMatrix.from_tensor])
def test_k_of_several_graphs_is_the_mean_over_graphs(union, layout):
    model = GCN(FEATURES, 6, 3, reweight="dr").eval()
    adj = normalized_adjacency(union.edge_index, union.num_nodes)
    inputs = (layout(union.x), adj, NodeGroups.of(union.graph, union.num_nodes))
    found = [layer.k for layer in layer_states(model, inputs)]
    each = k_by_hand(model, union, range(9))
    expected = [sum(layer) / 9 for layer in zip(*each, strict=True)]
    assert found == pytest.approx(expected, abs=1e-4)
    assert len({round(layer[0], 3) for layer in each}) > 1


def test_k_leaves_out_graphs_where_it_is_undefined(union):
    data = union.clone()
    data.x = union.x.clone()
    data.x[union.graph == 3] = 1.0  # every node alike: no variance to speak of
    model = GCN(FEATURES, 6, 3, num_layers=1, reweight="dr").eval()
    groups = NodeGroups.of(data.graph, data.num_nodes)
    found = [layer.k for layer in layer_states(model, (data.x, data.edge_index, groups))]
    rest = [k for (k,) in k_by_hand(model, data, [g for g in range(9) if g != 3])]
    assert found == pytest.approx([sum(rest) / 8], abs=1e-4)
    (nowhere,) = layer_states(model, (data.x * 0, data.edge_index, groups))
    assert nowhere.k is None


def test_a_record_takes_k_where_the_model_is_tested(union, tmp_path, monkeypatch):
    seen = []

    def noted(model, inputs):
        seen.append((model, inputs))
        return layer_states(model, inputs)

    monkeypatch.setattr(runner, "layer_states", noted)
    e = Experiment("union", "given", reweight="dr", hidden_channels=6, epochs=5, graphs_per_step=2)
    outcome = run(e, union, [0, 1], tmp_path)
    for seed, (model, inputs) in enumerate(seen):
        assert inputs[0].shape[0] == int(union.test_mask.sum())
        each = k_by_hand(model, union, (7, 8))
        expected = [sum(layer) / 2 for layer in zip(*each, strict=True)]
        assert outcome.seeds[seed].k == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("many_labels", "metric"), [(False, "accuracy"), (True, "micro-F1")])
def test_a_record_says_by_what_it_was_judged(tmp_path, many_labels, metric):
    data = several(many_labels=many_labels)
    run(Experiment("union", "given", hidden_channels=4, epochs=3), data, [0], tmp_path)
    (record,) = load_records(tmp_path)
    assert record.data["metric"] == metric


# Other models


@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_run_by_its_recipe_and_recorded(tiny, tmp_path, model):
    e = recipe("planted", "random", model, reweight="dr", epochs=4)
    outcome = run(e, tiny, [0], tmp_path)
    (record,) = load_records(tmp_path)
    assert record.experiment == e
    assert len(outcome.seeds[0].k) == {"lgcn": 4, "geniepath": 3}.get(model, 2)
    assert run(e, tiny, [0], tmp_path).trained == ()


def test_settings_of_an_experiment_reach_the_training(tiny, tmp_path, monkeypatch):
    seen = {}

    def noted(*args, **options):
        seen.update(options)
        return fit(*args, **options)

    monkeypatch.setattr(runner, "fit", noted)
    run(recipe("planted", "random", "mixhop", epochs=3), tiny, [0], tmp_path)
    assert seen["optimizer"] is torch.optim.SGD
    assert seen["schedule"] == StepwiseDecay(40, share=0.01)
    assert seen["rule"] == BestValidation(patience=200)
    assert (seen["lr"], seen["weight_decay"], seen["epochs"]) == (1.0, 5e-3, 3)
    run(recipe("planted", "random", "gat", epochs=3), tiny, [0], tmp_path)
    assert seen["optimizer"] is torch.optim.Adam
    assert seen["schedule"] is None
    assert isinstance(seen["rule"], Patience)


# Models that sample


@pytest.mark.parametrize(
    ("model", "reweight"), [("graphsage", None), ("fastgcn", "dr"), ("asgcn", "dr")]
)
def test_a_record_of_a_model_that_samples_is_read_again(tiny, tmp_path, model, reweight):
    e = recipe("planted", "random", model, reweight=reweight, epochs=4, batch_size=8)
    outcome = run(e, tiny, [0, 3], tmp_path)
    record = RunRecord.read(outcome.paths[0])
    assert record.experiment == e
    assert record.seeds == outcome.seeds
    assert (record.experiment.batch_size, record.experiment.inductive) == (8, e.inductive)
    for result in record.seeds.values():
        assert len(result.k) == len(result.saturation) == (2 if reweight else 0)
        assert all(k > 0 for k in result.k)
    assert run(e, tiny, [0, 3], tmp_path).trained == ()
    again = run(e, tiny, [3], tmp_path / "other")
    assert again.seeds[3] == outcome.seeds[3]


@pytest.mark.parametrize(("model", "apart"), [("asgcn", False), ("fastgcn", True)])
def test_k_of_a_model_that_samples_is_taken_where_it_is_tested(
    tiny, tmp_path, monkeypatch, model, apart
):
    """On every node of the whole graph; of FastGCN on the graph without validation nodes."""
    seen = []

    def noted(model, inputs):
        seen.append(model)
        return layer_states(model, inputs)

    monkeypatch.setattr(runner, "layer_states", noted)
    e = recipe("planted", "random", model, reweight="dr", epochs=4, batch_size=8)
    outcome = run(e, tiny, [0], tmp_path)
    x, edges = tiny.x, tiny.edge_index
    if apart:
        kept = tiny.train_mask | tiny.test_mask
        assert not kept.all()
        x, (edges, _) = x[kept], subgraph(kept, edges, relabel_nodes=True)
    expected = [stability_k(h, s) for h, s, _ in seen[0].layers(x, edges)]
    assert outcome.seeds[0].k == pytest.approx(expected, abs=1e-3)


def test_batches_and_what_is_seen_reach_the_training(tiny, tmp_path, monkeypatch):
    seen = {}

    def noted(*args, **options):
        seen.update(options)
        return fit(*args, **options)

    monkeypatch.setattr(runner, "fit", noted)
    run(recipe("planted", "random", "fastgcn", epochs=2, batch_size=7), tiny, [0], tmp_path)
    assert (seen["batch_size"], seen["inductive"]) == (7, "apart")
    run(recipe("planted", "random", epochs=2, inductive="train"), tiny, [0], tmp_path)
    assert (seen["batch_size"], seen["inductive"]) == (None, "train")


# Gates of the layers


def test_one_forward_pass_gives_k_saturation_and_gate(tiny):
    model = GCN(64, 8, 4, reweight="dr").eval()
    inputs = model.prepare(tiny)
    passes = []
    model.inputs[0].register_forward_hook(lambda *_: passes.append(1))
    found = layer_states(model, inputs)
    assert len(passes) == 1
    layers = list(model.layers(tiny.x, tiny.edge_index))
    assert len(found) == len(layers) == 2
    for state, (x, s, _) in zip(found, layers, strict=True):
        assert state.k == pytest.approx(stability_k(x, s), abs=1e-4)
        assert state.saturation == pytest.approx(gate_saturation(s), abs=1e-4)
        torch.testing.assert_close(state.s, s.detach())
        assert not state.s.requires_grad


# Models built


# Widths of the datasets: features and classes.
SHAPES = {
    **{"cora": (1433, 7), "citeseer": (3703, 6), "pubmed": (500, 3), "corar": (302, 7)},
    **{"citeseerr": (768, 6), "ppi": (50, 121), "wine": (13, 3), "digits": (64, 10)},
    **{"planted": (32, 4), "twitch": (128, 2), "mine": (5, 11), "reddit": (602, 41)},
}
CLASSES = {
    **{"gcn": GCN, "gat": GAT, "mixhop": MixHop, "chebyshev": ChebNet, "mlp": MLP},
    **{"lgcn": LGCN, "geniepath": GeniePath},
    **{"graphsage": GraphSAGE, "fastgcn": FastGCN, "asgcn": ASGCN},
}
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def graph(dataset):
    features, classes = SHAPES[dataset]
    info = SimpleNamespace(classes=classes)
    return Data(x=torch.eye(3, features), edge_index=EDGES, dataset=info)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_builds_for_its_recipe(model):
    for dataset in SHAPES:
        for split in ("public", "full"):
            expect_built(recipe(dataset, split, model, reweight="dr"), graph(dataset))
    for gate in (None, "static", "constant"):
        expect_built(recipe("cora", "public", model, reweight=gate), graph("cora"))


def expect_built(experiment, data):
    made = build(experiment, data)
    assert type(made) is CLASSES[experiment.model]
    assert (made.inputs[0].gate is None) == (experiment.reweight is None)
    assert sum(1 for _ in made.layers(*made.prepare(data))) == len(made.inputs)
    assert made(*made.prepare(data)).shape == (3, data.dataset.classes)


def test_settings_reach_the_model():
    data = graph("cora")
    gat = build(recipe("pubmed", "public", "gat", norm="layer", num_layers=3), data)
    assert [conv.heads for conv in gat.convs] == [8, 8, 8]
    assert all(conv.dropout == 0.6 for conv in gat.convs)
    assert all(isinstance(enter.norm, torch.nn.LayerNorm) for enter in gat.inputs)
    gcn = build(recipe("cora", "full", pre_activation=True, hidden_channels=9, dropout=0.1), data)
    assert (gcn.pre_activation, gcn.dropout) == (True, 0.1)
    assert gcn.convs[0].weight.shape == (1433, 9)
    mixhop = build(recipe("cora", "full", "mixhop"), data)
    assert mixhop.convs[0].out_channels == (24, 18, 18)
    assert mixhop.readout.out_channels == (0, 7, 7)
    assert (mixhop.dropout, mixhop.hidden_dropout, mixhop.binarize) == (0.5, 0.9, True)
    cheb = build(recipe("cora", "public", "chebyshev"), data)
    assert cheb.convs[0].weight.numel() == 3 * 1433 * 16  # orders 0 to 2
    lgcn = build(recipe("cora", "public", "lgcn"), data)
    assert [(conv.in_channels, conv.out_channels, conv.k) for conv in lgcn.convs] == [
        *((32, 8, 8), (40, 8, 8))
    ]
    assert (lgcn.dropout, lgcn.convs[1].dropout) == (0.84, 0.84)
    genie = build(recipe("ppi", "published", "geniepath"), data)
    assert (len(genie.paths), genie.paths[0].out_channels, genie.lazy) == (4, 256, False)


def test_pre_activation_is_for_gcn_alone():
    for model in set(MODELS) - {"gcn"}:
        with pytest.raises(InputError, match=f"pre-activation with gcn alone; found {model}"):
            build(recipe("cora", "public", model, pre_activation=True), graph("cora"))


def test_mixhop_takes_no_norm():
    with pytest.raises(InputError, match="no norm with mixhop"):
        build(recipe("cora", "public", "mixhop", norm="layer"), graph("cora"))


def test_an_option_cannot_make_a_row_into_another():
    for name in ("reweight", "norm", "pre_activation"):
        e = recipe("cora", "public", options={name: None})
        with pytest.raises(InputError, match=f"Expected {name} as a setting of its own"):
            build(e, graph("cora"))


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("gcn", {"heads": 8}, "found heads=8."),
        ("gcn", {"in_channels": 4}, "found in_channels=4."),
        ("gat", {"heads": 5}, "multiple of its 5 heads"),
        ("mixhop", {"hidden_channels": 8}, "one width per power"),
        ("chebyshev", {"K": -1}, "order K >= 0"),
        ("lgcn", {"k": 0}, "k >= 1; found 0"),
        ("geniepath", {"heads": 2}, "attention, dropout, hidden_channels, input_bias, lazy"),
        ("graphsage", {"fan_outs": [10]}, "one fan-out per layer, 2; found [10]"),
        ("fastgcn", {"sampler": "uniform"}, "'importance' or 'layer-dependent'"),
        ("asgcn", {"form": "sampled"}, "the form 'adapt' or 'mix'"),
    ],
)
def test_arguments_a_model_does_not_take_are_one_clear_error(model, options, words):
    usual = recipe("cora", "public", model)
    wrong = replace(usual, options={**usual.options, **options})
    with pytest.raises(
        InputError, match=f"Expected arguments that {CLASSES[model].__name__}"
    ) as e:
        build(wrong, graph("cora"))
    assert words in str(e.value)


@pytest.mark.parametrize(("model", "option"), [("asgcn", "count"), ("gat", "out_heads")])
def test_options_of_the_recipe_are_not_held_against_the_user(model, option):
    usual = recipe("cora", "public", model, options={})
    options = {**recipe("cora", "public", model).options, option: -3}
    with pytest.raises(InputError) as e:
        build(replace(usual, options=options), graph("cora"))
    takes, found, own = str(e.value).partition(f"; found {option}=-3. ")
    assert takes == f"Expected arguments that {CLASSES[model].__name__} takes"
    assert found
    assert f"{option} >= 1; found -3" in own


def test_nothing_is_said_of_options_if_none_was_given():
    usual = recipe("cora", "public", "gat")
    with pytest.raises(InputError, match=r"^Expected arguments that GAT takes\. .*8 heads"):
        build(replace(usual, hidden_channels=30), graph("cora"))
