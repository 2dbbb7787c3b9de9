"""Run records: the schema of their files."""

import json

import pytest

from drgcn.errors import DrgcnWarning, InputError
from drgcn.studies.records import RunRecord, load_records


def test_a_record_read_back_is_the_record(make_record, tmp_path):
    record = make_record([0.8, 0.9], reweight="dr")
    assert record.save(tmp_path).name == record.file_name
    assert load_records(tmp_path) == [record]


def test_records_are_small(make_record):
    assert len(make_record([0.8] * 20, reweight="dr").dumps()) < 10_000


def test_file_names_hold_no_odd_characters(make_record):
    name = make_record([0.8], reweight="dr", norm="layer").file_name
    assert name.startswith("cora-full-gcn-layer-norm-dr-")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")


def test_records_from_before_saturation_was_measured_are_read(make_record):
    record = make_record([0.8], reweight="dr")
    raw = json.loads(record.dumps())
    del raw["seeds"]["0"]["saturation"]
    assert RunRecord.loads(json.dumps(raw)) == record
    assert record.seeds[0].saturation == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw.update(seeds={}), "no seeds"),
        (lambda raw: raw["seeds"].update(x=raw["seeds"].pop("0")), "'x' is no whole number"),
        (lambda raw: raw["seeds"]["1"].pop("epochs"), "seed 1 has no epochs"),
        (lambda raw: raw["seeds"]["1"].update(k=2), "seed 1 has 2 as k"),
        (lambda raw: raw["seeds"].update({"1": "good"}), "seed 1 should be names with values"),
        (lambda raw: raw.update(seeds="many"), "it has 'many' as seeds"),
        (lambda raw: raw["experiment"].update(luck=1), "its experiment has an unknown luck"),
        (
            lambda raw: raw["seeds"]["0"].update(test_accuracy=None),
            "seed 0 has None as test_accuracy",
        ),
        (lambda raw: raw["seeds"]["0"].update(k=[1.0]), "different numbers of layers"),
        (lambda raw: raw["data"].pop("content_hash"), "no content_hash"),
        (lambda raw: raw.update(data=[]), r"it has \[\] as data"),
        (lambda raw: raw.update(environment={}), "no device"),
        (lambda raw: raw["experiment"].update(model="odd"), "unknown model 'odd'"),
        (lambda raw: raw.pop("curve_epochs"), "it has no curve_epochs"),
        (lambda raw: raw.update(extra=1), "it has an unknown extra"),
        (lambda raw: raw["seeds"]["0"].update(test_accuracy=float("nan")), "nan as test_accuracy"),
        (lambda raw: raw["seeds"]["0"].update(test_accuracy=95.5), "95.5 as test_accuracy"),
        (lambda raw: raw["seeds"]["0"].update(test_accuracy=10**400), "as test_accuracy|large"),
        (lambda raw: raw["seeds"]["0"].update(val_accuracy=True), "True as val_accuracy"),
        (lambda raw: raw["seeds"]["0"].update(epochs=-1), "best epoch of -1"),
        (lambda raw: raw["seeds"]["0"].update(epochs=2.5), "2.5 as epochs"),
        (lambda raw: raw["seeds"]["0"].update(k=[1.0, "x"]), "as k"),
        (lambda raw: raw["seeds"]["0"].update(curve_val_accuracy=0.5), "as curve_val_accuracy"),
        (lambda raw: raw["seeds"].update({"00": raw["seeds"]["0"]}), "seed '00'"),
        (lambda raw: raw["seeds"].update({"٣": raw["seeds"]["0"]}), "seed '٣'"),
        (lambda raw: raw["experiment"].update(lr="fast"), "'fast' as lr"),
        (lambda raw: raw["experiment"].update(rule="luck"), "'luck' as rule"),
        (lambda raw: raw["experiment"].update(model=["gcn"]), "as model"),
        (lambda raw: raw["data"].update(nodes="many"), "'many' as nodes"),
        (lambda raw: raw["environment"].update(torch=[2]), "as torch"),
        (lambda raw: raw["data"].update(guess="half"), "'half' as guess"),
        (lambda raw: raw["data"].update(guess=50.0), "50.0 as guess, which is no share"),
        (lambda raw: raw["data"].update(guess_nodes=0), "0 as guess_nodes"),
        (lambda raw: raw.update(seconds=-1), "-1 seconds"),
        (lambda raw: raw.update(started=7), "7 as started"),
        (lambda raw: raw.update(started="today"), "isoformat"),
        (lambda raw: raw.update(started="2026-01-01T00:00:00"), "no time zone"),
        (lambda raw: raw.update(curve_epochs=[]), "curves of more epochs"),
        (lambda raw: raw.update(curve_epochs=[10, 1]), "do not ascend"),
        (lambda raw: raw.update(curve_epochs=[0, 1]), "do not ascend from 1"),
        (lambda raw: raw["data"].update(name="\ud800"), "surrogates"),
    ],
)
def test_what_a_table_would_trip_over_is_damage(make_record, change, words):
    raw = json.loads(make_record([0.8, 0.9], reweight="dr").dumps())
    change(raw)
    with pytest.raises(InputError, match=words):
        RunRecord.loads(json.dumps(raw))


def test_losses_after_training_has_diverged_are_read(make_record):
    raw = json.loads(make_record([0.8]).dumps())
    raw["seeds"]["0"]["curve_train_loss"] = [1.5, float("nan")]
    assert RunRecord.loads(json.dumps(raw)).dumps() == RunRecord.loads(json.dumps(raw)).dumps()


def test_a_seed_that_is_there_twice_is_damage(make_record):
    text = make_record([0.8, 0.9]).dumps().replace('"1": {', '"0": {')
    with pytest.raises(InputError, match="'0' twice"):
        RunRecord.loads(text)


def test_a_deeply_nested_file_does_not_hide_the_others(make_record, tmp_path):
    record = make_record([0.8])
    record.save(tmp_path)
    (tmp_path / "odd-seeds-0-1.json").write_text("[" * 100_000)
    with pytest.warns(DrgcnWarning, match="nested too deeply"):
        assert load_records(tmp_path) == [record]
