import json

import pytest

from drgcn.errors import DrgcnWarning, InputError
from drgcn.studies.records import RunRecord, load_records


def test_a_record_read_back_is_the_record(make_record, tmp_path):
    record = make_record([0.8, 0.9], reweight="dr")
    path = record.save(tmp_path)
    assert load_records(tmp_path) == [record]
    assert path.name == record.file_name


def test_a_record_is_valid_json_with_one_line_per_seed(make_record):
    text = make_record([0.8, 0.9, 0.7]).dumps()
    assert len(json.loads(text)["seeds"]) == 3
    assert sum(line.startswith('    "') for line in text.splitlines()) == 3


def test_records_are_small(make_record):
    assert len(make_record([0.8] * 20, reweight="dr").dumps()) < 10_000


def test_an_existing_record_is_never_overwritten(make_record, tmp_path):
    make_record([0.8]).save(tmp_path)
    before = next(tmp_path.iterdir()).read_text()
    with pytest.raises(InputError, match="never overwritten"):
        make_record([0.9]).save(tmp_path)
    (only,) = tmp_path.iterdir()
    assert only.read_text() == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("{", "it is no whole JSON from line 1 on"),
        ("[]", "it is not of format 1"),
        ("{}", "it is not of format 1"),
        ('{"format": 99}', "it is not of format 1"),
        ('{"format": 1}', "it has no experiment"),
    ],
)
def test_a_file_that_is_no_record_is_named_and_set_aside(text, reason, make_record, tmp_path):
    odd = tmp_path / "odd-seeds-0-1.json"
    odd.write_text(text)
    record = make_record([0.8])
    path = record.save(tmp_path)
    with pytest.warns(DrgcnWarning, match=r"odd-seeds-0-1\.json") as caught:
        assert RunRecord.read_folder(tmp_path) == {path: record}
    assert len(caught) == 1
    assert odd.read_text() == text
    with pytest.raises(InputError) as refused:
        RunRecord.read(odd)
    words = f"Expected a run record; {odd} is none ({reason}). Remove or repair it."
    assert str(refused.value) == words


def test_bytes_and_folders_in_place_of_a_record_are_set_aside(make_record, tmp_path):
    record = make_record([0.8])
    record.save(tmp_path)
    (tmp_path / "a-seeds-0-0.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "b-seeds-0-0.json").mkdir()
    with pytest.warns(DrgcnWarning, match="cannot be read") as caught:
        assert load_records(tmp_path) == [record]
    assert len(caught) == 2


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
    ],
)
def test_what_a_table_would_trip_over_is_damage(make_record, change, words):
    raw = json.loads(make_record([0.8, 0.9], reweight="dr").dumps())
    change(raw)
    with pytest.raises(InputError, match=words):
        RunRecord.loads(json.dumps(raw))


def test_a_folder_that_is_not_there_has_no_records(tmp_path):
    assert load_records(tmp_path / "none") == []


def test_file_names_hold_no_odd_characters(make_record):
    name = make_record([0.8], reweight="dr", norm="layer").file_name
    assert name.startswith("cora-full-gcn-layer-norm-dr-")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")


def test_unknown_keys_are_refused(make_record):
    raw = json.loads(make_record([0.8]).dumps()) | {"extra": 1}
    with pytest.raises(InputError):
        RunRecord.loads(json.dumps(raw))
