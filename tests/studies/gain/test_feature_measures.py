import json
import os
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from drgcn import advise, load
from drgcn.data import unite
from drgcn.errors import InputError
from drgcn.studies.advice import feature_numbers as feature_measures
from drgcn.studies.advice.feature_numbers import (
    FILE,
    dumps,
    feature_numbers,
    load_measures,
    measure,
    remake,
)
from drgcn.studies.records import load_records

RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture
def wine_record(make_record):
    record = make_record([0.9, 0.8])
    info = load("wine").dataset.to_dict()
    keys = ("name", "split", "split_seed", "normalize", "feature_source", "options")
    record.data.update({key: info[key] for key in (*keys, "content_hash")})
    return record


@pytest.fixture
def cora_record(make_record):
    record = make_record([0.9, 0.8], content_hash="c0ffee")
    record.data.update(split_seed=None, normalize="row", feature_source="published", options={})
    return record


def test_numbers_are_those_of_advice():
    data = load("wine")
    entry, advice = measure(data), advise(data)
    for name, value in asdict(entry.numbers).items():
        assert value == pytest.approx(getattr(advice, name), rel=1e-5), name
    assert (entry.dataset, entry.normalize) == ("wine", "none")
    assert entry.content_hash == data.dataset.content_hash


def test_of_several_graphs_those_trained_on_are_read():
    graphs = [
        load("planted", nodes=200, labels_per_class=6, val_per_class=12, split_seed=s)
        for s in range(4)
    ]
    graphs[3].x = graphs[3].x * torch.linspace(1, 90, 64)  # the test graph is another world
    found, variance = feature_numbers(unite(graphs[:2], graphs[2:3], graphs[3:]))
    only, _ = feature_numbers(unite(graphs[:2], graphs[:1], graphs[1:2]))
    assert found == only
    assert found.rows == 400
    both = torch.cat([graph.x for graph in graphs[:2]]).double()
    assert torch.allclose(variance, both.var(0, correction=0))


def test_files_are_read_as_they_were_written(tmp_path):
    entries = [measure(load("wine")), measure(load("wine", normalize="standard"))]
    path = tmp_path / FILE
    path.write_text(dumps(entries))
    assert load_measures(path) == entries
    assert len(path.read_text().splitlines()) == 4  # one a line
    assert load_records(tmp_path) == []  # records and measures do not get in each other's way


@pytest.mark.parametrize("text", ["", "{}x", '[{"dataset": "a"}]', "[3]", '{"a": 1}'])
def test_damaged_files_are_refused(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(InputError, match="Expected measures"):
        load_measures(tmp_path / FILE)


def test_what_is_on_record_is_measured(wine_record, cora_record, monkeypatch, tmp_path):
    monkeypatch.setenv("DRGCN_DATA", str(tmp_path))
    found, missing = remake([wine_record, wine_record, cora_record])
    assert found == [measure(load("wine"))]
    assert len(missing) == 1
    assert "cora, split full" in missing[0]
    known = replace(found[0], dataset="cora", content_hash="c0ffee")
    kept, _ = remake([cora_record], [known])
    assert kept == [known]
    assert remake([cora_record], [replace(known, content_hash="old")])[0] == []


def test_other_data_than_that_of_the_records_is_refused(wine_record):
    wine_record.data["content_hash"] = "f" * 16
    with pytest.raises(InputError, match=r"wine.*content hash f{16}; found"):
        remake([wine_record])


def test_the_command_writes_the_file(wine_record, tmp_path, monkeypatch):
    wine_record.save(tmp_path)
    monkeypatch.setattr(sys, "argv", ["feature_measures", str(tmp_path)])
    feature_measures.main()
    assert load_measures(tmp_path / FILE) == [measure(load("wine"))]
    monkeypatch.setattr(sys, "argv", ["feature_measures"])
    with pytest.raises(InputError, match="folder of the records"):
        feature_measures.main()


# The file beside the records


def test_the_committed_file_is_of_the_data_on_record():
    on_record = {record.data["content_hash"] for record in load_records(RESULTS)}
    entries = load_measures(RESULTS / FILE)
    hashes = [entry.content_hash for entry in entries]
    assert len(set(hashes)) == len(hashes)
    assert set(hashes) <= on_record
    assert json.loads((RESULTS / FILE).read_text())[0]["dataset"] == entries[0].dataset


def check_again(names):
    checked = 0
    for entry in load_measures(RESULTS / FILE):
        if entry.dataset in names:
            data = load(entry.dataset, split=entry.split, normalize=entry.normalize, offline=True)
            again = measure(data)
            assert again.content_hash == entry.content_hash
            assert asdict(again.numbers) == pytest.approx(asdict(entry.numbers), rel=1e-4)
            checked += 1
    return checked


def test_its_numbers_come_out_again():
    assert check_again(("wine", "breast-cancer", "digits", "planted")) == 6


@pytest.mark.slow
@pytest.mark.data
def test_its_numbers_come_out_again_on_real_data():
    if not os.environ.get("DRGCN_DATA"):
        pytest.skip("DRGCN_DATA is not set: no real datasets here")
    assert check_again(("cora", "tolokers", "amazon-photo")) == 4
