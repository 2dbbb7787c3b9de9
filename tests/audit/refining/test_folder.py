"""Refined datasets as folders, written whole or not at all."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from drgcn.audit.refining import refine as refined_folder
from drgcn.audit.refining.refine import refine, write_refined
from drgcn.audit.texts import NodeTexts
from drgcn.data import load
from drgcn.errors import InputError

from ...children import CHILDREN
from ..graphs import ring, spoilt
from .test_refine import CASES, random_case, same


@pytest.mark.filterwarnings("ignore:.*classes that no training node has")
@CASES
def test_the_folder_loads_to_the_same_data(tmp_path, seed, rule):
    data, groups, drop = random_case(seed)
    for part in ("train", "val", "test"):  # the tables want labels in all parts
        data[f"{part}_mask"] &= data.y >= 0
    refined = refine(data, groups, drop, feature_rule=rule)
    folder = write_refined(refined, tmp_path / "out")
    again = load(folder)
    assert same(refined.data, again)
    assert again.dataset.content_hash == refined.data.dataset.content_hash
    assert again.dataset.class_names == refined.data.dataset.class_names
    assert not refine(again).changed


def test_words_for_classes_sparse_features_and_texts_survive(tmp_path):
    data = load("wine", sparse=True)
    names = ('grüner, "Veltliner"', "Zweigelt\nrot", "1.5 l")
    data.dataset = replace(data.dataset, class_names=names)
    texts = [f"wine {i}  \N{LINE SEPARATOR}" for i in range(178)]
    refined = refine(data, [[0, 1]], texts=texts)
    folder = write_refined(refined, tmp_path / "deep" / "out")
    again = load(folder)
    assert same(refined.data, again)
    assert set(again.dataset.class_names) == set(names)
    assert NodeTexts.read(folder / "text.jsonl").texts == refined.texts


def test_the_account_is_complete(tmp_path):
    data = spoilt(y=torch.tensor([0, 1] * 6))
    refined = refine(data, [[0, 1]], {5: "lost"}, reasons=["same title"])
    folder = write_refined(refined, tmp_path / "out")
    account = json.loads((folder / "refined.json").read_text())
    assert account["nodes"] == {"before": 12, "kept": 10, "merged": 1, "dropped": 1}
    assert account["label conflicts"][0]["nodes"] == [0, 1]
    assert "same title" in (folder / "node_map.csv").read_text()
    readme = (folder / "README.md").read_text()
    assert "10 of 12 nodes" in readme
    for path in folder.iterdir():
        assert path.name == "README.md" or f"`{path.name}`" in readme
    assert folder.stat().st_mode & 0o777 == 0o777 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_without_a_split_none_is_written(tmp_path):
    data = ring()
    for part in ("train", "val", "test"):
        del data[f"{part}_mask"]
    again = load(write_refined(refine(data, [[0, 1]]), tmp_path / "out"))
    assert again.dataset.split == "random-60"


def test_without_labels_the_graph_is_written(tmp_path):
    data = ring()
    data.y = None
    for part in ("train", "val", "test"):
        del data[f"{part}_mask"]
    folder = write_refined(refine(data, [[0, 1]]), tmp_path / "out")
    assert load(folder, require_labels=False).num_nodes == 11


@pytest.mark.parametrize("there", ["folder", "file", "dangling link"])
def test_nothing_is_overwritten(tmp_path, there):
    target = tmp_path / "out"
    if there == "folder":
        target.mkdir()
    elif there == "file":
        target.write_text("mine")
    else:
        target.symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="there already"):
        write_refined(refine(ring()), target)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"val_mask": torch.zeros(12, dtype=torch.bool)}, "val part of the split is empty"),
        ({"graph": torch.zeros(12, dtype=torch.int64)}, "several graphs"),
        ({"y": torch.ones(12, 2)}, "several labels"),
    ],
)
def test_what_tables_cannot_hold_is_refused_and_leaves_nothing(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        write_refined(refine(spoilt(**change)), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["_write_nodes", "_check", "_readme"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_error_on_the_way_leaves_nothing(tmp_path, monkeypatch, step, error):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(refined_folder, step, fail)
    with pytest.raises(error):
        write_refined(refine(ring()), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_what_would_be_read_back_differently_is_refused(tmp_path, monkeypatch):
    write = refined_folder._write_nodes

    def other(refined: object, path: Path) -> None:
        write(refine(spoilt(x=ring().x * 2)), path)

    monkeypatch.setattr(refined_folder, "_write_nodes", other)
    with pytest.raises(InputError, match="x would be read back differently"):
        write_refined(refine(ring()), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def write_and_wait(folder: Path, written: threading.Event) -> None:
    """Stops when everything is written, and before the folder gets its name."""
    check = refined_folder._check

    def wait(*words: object) -> None:
        check(*words)
        written.set()
        time.sleep(60)

    refined_folder._check = wait
    write_refined(refine(load("wine")), folder)


@pytest.mark.slow
def test_a_killed_run_leaves_no_folder_of_that_name(tmp_path):
    written = CHILDREN.Event()
    run = CHILDREN.Process(target=write_and_wait, args=(tmp_path / "out", written))
    run.start()
    assert written.wait(60)
    run.kill()
    run.join()
    assert not (tmp_path / "out").exists()
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".out.partial-")
    write_refined(refine(load("wine")), tmp_path / "out")
    assert load(tmp_path / "out").num_nodes == 178


@pytest.mark.parametrize("name", ["nodes.parquet", "edges.csv", "node_map.csv", "refined.json"])
def test_a_folder_that_was_changed_is_refused(tmp_path, name):
    folder = write_refined(refine(ring(), [[0, 1]]), tmp_path / "out")
    path = folder / name
    whole = path.read_bytes()
    place = whole.rindex(b"1")
    path.write_bytes(whole[:place] + b"2" + whole[place + 1 :])
    with pytest.raises(InputError, match="as `drgcn refine` wrote it; found otherwise"):
        load(folder)
    path.write_bytes(whole)
    facts = json.loads((folder / "refined.json").read_text())
    earlier = {key: value for key, value in facts.items() if key not in ("files", "sha256")}
    (folder / "refined.json").write_text(json.dumps(earlier))
    load(folder)
