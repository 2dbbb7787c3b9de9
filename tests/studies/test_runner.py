import pytest
import torch
from torch_geometric.utils import subgraph

from drgcn.errors import DrgcnWarning
from drgcn.nn import GCN, SparseMatrix, normalized_adjacency
from drgcn.nn.graph import NodeGroups
from drgcn.stability import stability_k
from drgcn.studies import run as runner
from drgcn.studies.experiment import MODELS, Experiment, recipe
from drgcn.studies.records import RunRecord, load_records
from drgcn.studies.run import layer_states, run
from drgcn.training import BestValidation, Patience, StepwiseDecay, fit

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
def test_k_is_recorded_for_every_gated_layer(tiny, tmp_path, reweight, layers):
    outcome = run(experiment(reweight=reweight), tiny, [0], tmp_path)
    assert len(outcome.seeds[0].k) == layers


def test_a_constant_gate_has_k_one(tiny, tmp_path):
    assert run(experiment(reweight="constant"), tiny, [0], tmp_path).seeds[0].k == [1.0, 1.0]


def test_a_record_says_where_and_on_what_it_was_made(tiny, tmp_path):
    run(experiment(), tiny, [0], tmp_path)
    (record,) = load_records(tmp_path)
    assert record.data["content_hash"] == tiny.dataset.content_hash
    assert {"torch", "torch_geometric", "drgcn", "source", "device"} <= record.environment.keys()
    assert record.curve_epochs == [1, 2, 5, 10]
    assert len(record.seeds[0].curve_train_loss) == 4


def test_nothing_is_left_but_the_record(tiny, tmp_path):
    outcome = run(experiment(), tiny, [0], tmp_path, checkpoint_every=0)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == list(outcome.paths)


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


@pytest.mark.parametrize("reweight", [None, "dr"])
@pytest.mark.parametrize("model", ["graphsage", "fastgcn", "asgcn"])
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
