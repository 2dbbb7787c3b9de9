"""Run records: the schema of their files."""

import json

import pytest

from drgcn.errors import InputError
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
        (lambda raw: raw["seeds"]["1"].update(k=2), "seed 1 has no list of K"),
        (lambda raw: raw["seeds"].update({"1": "good"}), "seed 1 should be names with values"),
        (lambda raw: raw.update(seeds="many"), "its seeds should be names with values"),
        (lambda raw: raw["experiment"].update(luck=1), "its experiment has an unknown luck"),
        (lambda raw: raw["seeds"]["0"].update(test_accuracy=None), "seed 0 has no test accuracy"),
        (lambda raw: raw["seeds"]["0"].update(k=[1.0]), "different numbers of layers"),
        (lambda raw: raw["data"].pop("content_hash"), "no content_hash"),
        (lambda raw: raw.update(data=[]), "its data should be names with values"),
        (lambda raw: raw.update(environment={}), "no device"),
        (lambda raw: raw["experiment"].update(model="odd"), "unknown model 'odd'"),
        (lambda raw: raw.pop("curve_epochs"), "it has no curve_epochs"),
        (lambda raw: raw.update(extra=1), "it has an unknown extra"),
    ],
)
def test_what_a_table_would_trip_over_is_damage(make_record, change, words):
    raw = json.loads(make_record([0.8, 0.9], reweight="dr").dumps())
    change(raw)
    with pytest.raises(InputError, match=words):
        RunRecord.loads(json.dumps(raw))
