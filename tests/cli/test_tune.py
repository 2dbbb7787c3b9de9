"""``drgcn tune`` as a user meets it."""

import json
import random
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import drgcn.cli.verbs
from drgcn.cli import tune
from drgcn.errors import DrgcnError
from drgcn.records import load_sealed

SMALL = ("--trials", "3", "--seeds", "2", "--fresh-seeds", "2", "--epochs", "5")


@pytest.fixture
def call(monkeypatch, tmp_path):
    """Runs a command in an empty folder; returns exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        result = CliRunner().invoke(drgcn.cli.verbs.app, ["tune", *words])
        if isinstance(result.exception, DrgcnError):
            return 2, result.stdout, str(result.exception)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


def program(*words, folder):
    return subprocess.Popen(
        [sys.executable, "-c", "import drgcn.cli; drgcn.cli.main()", "tune", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )


def test_plain_and_gate_are_tuned_on_the_same_budget(call, tmp_path, monkeypatch):
    monkeypatch.setattr("drgcn.cli.options._LINE_EVERY", 0)
    code, out, error = call("wine", "--compare", *SMALL, "--json")
    report = json.loads(out)
    assert code == 0
    assert [one["row"] for one in report["searches"]] == ["gcn", "gcn + dr"]
    assert len({one["epochs"] for one in report["searches"]}) == 1
    assert report["fresh"]["seeds"] == [2, 3]
    (path,) = (tmp_path / "tuning").glob("*/tuning.json")
    assert load_sealed(path) == report
    assert "6 of 6 runs" in error
    assert "left" in error
    assert "test" not in error


def test_the_table_is_printed_and_a_second_call_finds_all_done(call, tmp_path):
    first = call("wine", "--reweight", "none", *SMALL, "--out", "here")
    assert first[0] == 0
    assert "gcn, tuned" in first[1]
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*-seeds-*.json")}
    second = call("wine", "--reweight", "none", *SMALL, "--out", "here")
    assert second[:2] == first[:2]
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*-seeds-*.json")} == files


@pytest.mark.parametrize(
    "words",
    [
        ("--space", "odd=1:2"),
        ("--space", "num_layers=0:2"),
        ("--model", "gat", "--space", "heads=7"),
        ("--model", "odd"),
        ("--compare", "--reweight", "none"),
        ("--strategy", "halving", "--timeout", "60"),
        ("--strategy", "odd"),
        ("--strategy", "halving", "--trials", "5"),
        ("--strategy", "halving", "--space", "num_layers=1:3"),
        ("--trials", "0"),
    ],
)
def test_what_cannot_be_done_has_exit_code_2_before_any_work(call, tmp_path, words):
    code, _, error = call("wine", *words)
    assert code == 2
    assert error
    assert list(tmp_path.iterdir()) == []


def test_optuna_is_needed_for_tpe_alone(call, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "optuna", None)  # importing it fails
    monkeypatch.setattr(tune.importlib.util, "find_spec", lambda name: None)
    code, _, error = call("wine", "--strategy", "tpe")
    assert code == 2
    assert error == (
        "Expected the package optuna for --strategy tpe; found none. Use --strategy random. In "
        "the folder of drgcn's source code, run: pip install '.[tune]'"
    )
    assert list(tmp_path.iterdir()) == []
    words = ("--strategy", "halving", "--trials", "6", "--epochs", "9", "--seeds", "1")
    code, out, _ = call("wine", *words, "--fresh-seeds", "1", "--reweight", "none")
    assert code == 0
    assert "6 trials for 3 epochs, 2 trials for 9 epochs" in out


def _killed_often(call, tmp_path, kills):
    """A search that is killed and begun again, against one that was left alone."""
    words = ("wine", "--compare", "--trials", "4", "--seeds", "2", "--fresh-seeds", "2")
    words += ("--epochs", "60", "--threads", "1", "--device", "cpu")
    draws = random.Random(kills)
    for folder in ("whole", "killed"):
        (tmp_path / folder).mkdir()
    for kill in range(kills):
        work = program(*words, "--out", "here", folder=tmp_path / "killed")
        # Importing takes seconds and varies: wait for the search to write, then a moment.
        study, deadline = tmp_path / "killed" / "here" / "search.json", time.monotonic() + 60
        while work.poll() is None and time.monotonic() < deadline:
            if kill > 0 or study.exists():
                break
            time.sleep(0.01)
        delay = draws.uniform(0, 2) if kill == 0 else draws.uniform(3, 9)
        try:
            work.wait(delay)
        except subprocess.TimeoutExpired:
            work.send_signal(signal.SIGKILL)
        work.communicate()
    reports = []
    for folder in ("killed", "whole"):
        code, _, error = call(*words, "--out", str(tmp_path / folder / "here"))
        assert code == 0, error
        report = json.loads((tmp_path / folder / "here" / "tuning.json").read_text())
        for one in report["searches"]:
            one.pop("seconds")
        report["environment"].pop("source")  # somebody may be writing code meanwhile
        reports.append(report)
        assert [one["epochs"] for one in report["searches"]] == [4 * 2 * 60] * 2
        assert len(list((tmp_path / folder / "here" / "trials").glob("*.json"))) == 8
    assert reports[0] == reports[1]


@pytest.mark.slow
def test_a_killed_search_ends_as_one_that_was_left_alone(call, tmp_path):
    _killed_often(call, tmp_path, 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_search_killed_many_times_ends_as_one_that_was_left_alone(call, tmp_path):
    _killed_often(call, tmp_path, 12)
