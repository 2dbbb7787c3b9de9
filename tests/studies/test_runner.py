import pytest

from drgcn.studies.experiment import Experiment
from drgcn.studies.run_record import load_records
from drgcn.studies.runner import run


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
