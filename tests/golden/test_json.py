"""What small commands print, as JSON or in words, to the digit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import torch
from typer.testing import CliRunner

import drgcn.cli.verbs
from drgcn.errors import DrgcnError
from drgcn.records import load_sealed
from drgcn.studies.paper.page import NAMES

from .goldens import expect_json, expect_numbers, masked, sha

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def call(monkeypatch, tmp_path):
    """Runs a command in an empty folder; returns what it prints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRGCN_DATA", str(tmp_path / "no-data"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    torch.set_num_threads(1)

    def run(*words: Any, code: int = 0) -> str:
        result = CliRunner().invoke(drgcn.cli.verbs.app, [str(word) for word in words])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.stdout

    return run


def _own_data(folder: Path) -> Path:
    """A folder of tables with duplicates, and texts of its nodes."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines, last = ["id,height,weight,girth,label,split"], []
    for i in range(60):
        values = [f"{i % 2 + rng.normal():.2f}", f"{rng.normal():.2f}", f"{i % 3}"]
        if i % 20 == 19:
            values = last
        last = values
        split = ("train", "val", "test")[i % 3]
        lines.append(f"n{i},{','.join(values)},{'ab'[i % 2]},{split}")
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n")
    edges = [f"n{i},n{(i + 2) % 60}" for i in range(60)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    return folder


def test_the_list_of_datasets(call):
    expect_json("json/data_list", json.loads(call("data", "list", "--json")))


@pytest.mark.parametrize("name", ["wine", "digits", "planted"])
def test_facts_about_a_dataset(call, name):
    expect_numbers(
        f"json/data_info_{name}", masked(json.loads(call("data", "info", name, "--json")))
    )


def test_stability_of_wine(call):
    words = ("--train", "--seeds", "2", "--epochs", "4", "--threads", "1", "--json")
    expect_numbers("json/stability", masked(json.loads(call("stability", "wine", *words))))


@pytest.mark.parametrize("model", ["gcn", "gat", "graphsage"])
def test_training_with_controls(call, model):
    words = ("--compare", "--seeds", "2", "--epochs", "4", "--threads", "1", "--device", "cpu")
    words = (*words, "--hidden", "8", "--model", model, "--json")
    found = masked(json.loads(call("train", "wine", *words)))
    expect_numbers(f"json/train_{model}", found)


def test_a_run_record_is_written_as_it_always_was(call, tmp_path):
    words = (
        "--seeds",
        "2",
        "--epochs",
        "4",
        "--threads",
        "1",
        "--device",
        "cpu",
        "--norm",
        "layer",
    )
    call("train", "wine", *words, "--json")
    (path,) = (tmp_path / "runs").glob("*.json")
    expect_numbers("json/run_record", {path.name: masked(json.loads(path.read_text()))})


def test_baselines_of_wine(call, tmp_path):
    words = ("--method", "label-propagation", "--method", "ica", "--seeds", "2", "--threads", "1")
    words = (*words, "--normalize", "standard")
    found = {"printed": masked(json.loads(call("baselines", "wine", *words, "--json")))}
    for path in sorted((tmp_path / "runs" / "baselines").glob("*.json")):
        found[path.name] = masked(json.loads(path.read_text()))
    expect_numbers("json/baselines", found)


def test_an_audit_of_own_data(call, tmp_path):
    mine = _own_data(tmp_path / "mine")
    words = ("--threads", "1", "--markdown", tmp_path / "found.md", "--json")
    code, out = _either(call, "audit", mine, *words)
    found = {"code": code, "printed": masked(json.loads(out))}
    found["markdown"] = (tmp_path / "found.md").read_text().splitlines()
    expect_numbers("json/audit", _without(found, tmp_path))


def test_an_audit_of_wine(call, tmp_path):
    code, out = _either(call, "audit", "wine", "--threads", "1", "--json")
    expect_numbers("json/audit_wine", {"code": code, "printed": masked(json.loads(out))})


def test_refining_own_data(call, tmp_path):
    mine, out = _own_data(tmp_path / "mine"), tmp_path / "refined"
    found = {"printed": masked(json.loads(call("refine", mine, "--out", out, "--json")))}
    written = {path.name: path for path in sorted(out.iterdir())}
    found["files"] = {name: _content(path) for name, path in written.items()}
    expect_numbers("json/refine", _without(found, tmp_path))


def test_the_tables_of_the_paper(call):
    found = {"list": json.loads(call("studies", "list", "--json"))}
    found["recorded"] = json.loads(call("studies", "list", "--results", RESULTS, "--json"))
    for name in NAMES:
        found[name] = sha(json.dumps(json.loads(call("studies", "show", name, "--json"))))
    found["main in full"] = json.loads(call("studies", "show", "ppi", "--json"))
    expect_json("json/studies", found)


def test_pages_are_valid(call):
    expect_json("json/studies_validate", call("studies", "validate").splitlines())


def test_the_report_of_all_records(call, tmp_path):
    places = ("--markdown", tmp_path / "report.md", "--latex", tmp_path / "latex")
    printed = call("report", RESULTS, "--html", tmp_path / "report.html", *places)
    kept = [line for line in printed.splitlines() if str(tmp_path) not in line]
    written = {p.relative_to(tmp_path).as_posix(): p for p in sorted(tmp_path.rglob("*.*"))}
    found = {name: sha(_without(p.read_text(), tmp_path)) for name, p in written.items()}
    expect_numbers("json/report", {"printed": _without(kept, RESULTS), "files": found})


def test_what_doctor_says(call):
    found = masked(json.loads(call("doctor", "--json")))
    found["deterministic"] = sorted(found["deterministic"])[:1]
    expect_json("json/doctor", found)


def test_a_search_for_settings(call, tmp_path):
    pytest.importorskip("optuna")
    words = ("--trials", "3", "--seeds", "2", "--fresh-seeds", "2", "--epochs", "3", "--compare")
    words = (*words, "--strategy", "tpe", "--threads", "1", "--device", "cpu", "--json")
    words = (*words, "--out", tmp_path / "search")
    found = masked(json.loads(call("tune", "wine", *words)))
    expect_numbers("json/tune", _without(found, tmp_path))


def test_clicks_are_generated_described_trained_on_and_evaluated(call, tmp_path):
    clicks, run = tmp_path / "clicks", tmp_path / "run"
    made = call("recommend", "generate", "--fraction", "0.0001", "--out", clicks, "--json")
    found = {"generate": masked(json.loads(made))}
    found["info"] = masked(json.loads(call("recommend", "info", clicks, "--json")))
    words = ("--steps", "4", "--batch-size", "64", "--channels", "8", "--fan-outs", "3,2")
    words = (clicks, "--out", run, *words, "--model", "sage", "--negatives", "1024")
    words = (*words, "--device", "cpu", "--threads", "1", "--json")
    found["train"] = masked(json.loads(call("recommend", "train", *words)))
    words = (run, "--n", "20", "--device", "cpu", "--threads", "1", "--json")
    found["evaluate"] = masked(json.loads(call("recommend", "evaluate", *words)))
    settings = masked(load_sealed(run / "settings.json"))
    found |= {"settings": settings, "files": sorted(path.name for path in run.iterdir())}
    found["history"] = load_sealed(run / "history.json")["losses"]
    expect_numbers("json/recommend", _without(found, tmp_path))


def test_gates_are_compared_on_clicks(call, tmp_path):
    clicks, out = tmp_path / "clicks", tmp_path / "study"
    call("recommend", "generate", "--fraction", "0.0001", "--out", clicks)
    words = ("--seeds", "2", "--gates", "none,dr", "--channels", "8", "--batch-size", "256")
    words = (*words, "--fan-outs", "3,2", "--epochs-max", "0.06", "--every", "0.03")
    words = (*words, "--device", "cpu", "--threads", "1", "--out", out)
    printed = call("recommend", "compare", clicks, *words, "--json")
    found = {"printed": masked(json.loads(printed))}
    for path in sorted(out.glob("*.json")):
        found[path.name] = masked(json.loads(path.read_text()))
    expect_numbers("json/compare", _without(found, tmp_path))


def _content(path: Path) -> Any:
    """Lines of a text, columns of a table."""
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path).to_pydict()
    if path.name == "refined.json":  # its digests differ with the version of pyarrow
        facts = {name: value for name, value in load_sealed(path).items() if name != "files"}
        return json.dumps(facts, indent=2, ensure_ascii=False).splitlines()
    return path.read_text(encoding="utf-8").splitlines()


def _either(call: Any, *words: Any) -> tuple[int, str]:
    """The exit code, 0 or 1, and what is printed."""
    try:
        return 0, call(*words)
    except AssertionError:
        return 1, call(*words, code=1)


def _without(value: Any, place: Path) -> Any:
    """The same with no mention of a place on this machine."""
    return json.loads(re.sub(re.escape(str(place)), "PLACE", json.dumps(value)))


def test_bad_input_is_refused_in_the_same_words(call, tmp_path):
    found = {}
    for words in (
        ("train", "coar"),
        ("train", "wine", "--set", "nonsense=1"),
        ("train", "wine", "--batch-size", "3"),
        ("studies", "show", "mian"),
        ("report", "nowhere"),
        ("baselines", "wine", "--method", "nothing"),
        ("recommend", "info", "nowhere"),
        ("audit", "nowhere"),
    ):
        with pytest.raises(DrgcnError) as refused:
            call(*words)
        found[" ".join(words)] = str(refused.value)
    expect_json("json/refusals", _without(found, tmp_path))
