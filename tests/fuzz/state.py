"""Changed files of state: logs and reports of searches, suites, failures, saved graphs."""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from drgcn.records import sealed
from drgcn.sampling.graph import CSRGraph
from drgcn.studies.reproduce.jobs import Failure, SuiteRecord, failures_in, suites_in
from drgcn.studies.tuning.report import FILE, earlier_looks
from drgcn.studies.tuning.space import SettingRange
from drgcn.studies.tuning.trials import FileLog, StudyLog, Trial

from .generators import PLAIN, Target, flip, odd_array, odd_json

_TRIALS = [Trial(n, {"lr": 0.01, "hidden": 8}, 5, [0.5, n / 4], seconds=1.0) for n in (0, 1)]
_SPACE = (SettingRange("lr", 1e-3, 1e-1, log=True), SettingRange("hidden", choices=(4, 8)))
_SUITE = SuiteRecord(
    *("2026-01-01T00:00:00+00:00", "finished", ["main"], {"dataset": ["cora"]}, True, 2, 1),
    *(10.0, 19.5, 4, 1, 2, 20, 0, {"torch": "2"}),
)
_FAILURE = Failure("cora", {"model": "gcn"}, None, [0, 1], "lost", "", 2, "today", {})
_QUESTION: Final = {"seed": 1, "space": ["lr"]}


def _log(folder: Path) -> FileLog:
    return FileLog(folder / "search.json", "a", _QUESTION)


def _study(folder: Path) -> StudyLog:
    return StudyLog(folder / "study.db", "a", _QUESTION, _SPACE, 5)


def _graph(folder: Path) -> list[tuple[str, list[float]]]:
    found = CSRGraph.open(folder / "graph")
    return [(name, values.tolist()) for name, values in found._arrays()]


def _write_graph(folder: Path) -> None:
    edges = torch.tensor([[0, 1, 1, 3], [1, 0, 2, 2]])
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0])
    CSRGraph.from_edge_index(edges, 4, weights).save(folder / "graph")


#: Who writes a state into a folder, and who reads it there.
_STATES: Final[dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]]] = {
    "search": (lambda folder: _log(folder).add(_TRIALS), lambda folder: _log(folder).trials),
    "report": (
        lambda folder: (folder / FILE).write_text(
            json.dumps(sealed({"tested_after": [2, 5], "winner": {"value": 0.5}}))
        ),
        earlier_looks,
    ),
    "suite": (_SUITE.save, suites_in),
    "failure": (lambda folder: _FAILURE.save(folder / "failures" / "a.json"), failures_in),
    "graph": (_write_graph, _graph),
}


@cache
def _sound(name: str) -> Any:
    write, read = _STATES[name]
    with tempfile.TemporaryDirectory() as place:
        write(Path(place))
        return read(Path(place))


def _write(folder: Path, draw: random.Random) -> None:
    """One state with one of its files changed; its digest stays where it was."""
    name = draw.choice(list(_STATES))
    _STATES[name][0](folder)
    path = draw.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    if draw.random() < 0.2:
        flip(path, draw)
    elif path.suffix == ".npy":
        value = odd_array(np.load(path), draw)
        np.save(path, np.zeros(0) if value is None else value)
    else:
        facts = json.loads(path.read_text())
        changed = odd_json(facts, draw)
        if isinstance(changed, dict):
            changed.setdefault("sha256", facts["sha256"])
        path.write_text(json.dumps(changed))
    (folder / "name").write_text(name)


def _write_earlier(folder: Path, draw: random.Random) -> None:
    """As earlier versions wrote it, without a digest; with values changed."""
    name = draw.choice(list(_STATES))
    _STATES[name][0](folder)
    (path,) = folder.rglob("*.json")
    facts = json.loads(path.read_text())
    del facts["sha256"]
    for _ in range(draw.choice([1, 1, 2])):
        facts = odd_json(facts, draw)
    path.write_text(json.dumps(facts))
    (folder / "name").write_text(name)


def _read(folder: Path) -> tuple[str, Any]:
    name = (folder / "name").read_text()
    return name, _STATES[name][1](folder)


def _check_same(found: tuple[str, Any]) -> None:
    name, value = found
    assert value == _sound(name)


def _check_kind(found: tuple[str, Any]) -> None:
    name, value = found
    assert type(value) is type(_sound(name))
    if name == "search":
        assert all(trial.value is None or trial.value <= 1 for trial in value)


@cache
def _study_file() -> tuple[bytes, list[Trial]]:
    """A study, and its trials."""
    with tempfile.TemporaryDirectory() as place:
        study = _study(Path(place))
        study.add(_TRIALS)
        return (Path(place) / "study.db").read_bytes(), study.trials


def _write_study(folder: Path, draw: random.Random) -> None:
    path = folder / "study.db"
    path.write_bytes(_study_file()[0])
    if draw.random() < 0.3:
        flip(path, draw)
        return
    with closing(sqlite3.connect(path)) as base, base:
        tables = base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        filled = [t for (t,) in tables if base.execute(f"SELECT * FROM {t}").fetchone()]
        table = draw.choice(sorted(filled))
        column = draw.choice(base.execute(f"PRAGMA table_info({table})").fetchall())[1]
        value = draw.choice([v for v in PLAIN if isinstance(v, str | float | None)] + ["null"])
        with suppress(sqlite3.Error, OverflowError, UnicodeError):
            base.execute(f"UPDATE {table} SET {column} = ?", (value,))


def _check_study(found: list[Trial]) -> None:
    # A search draws the trials that its end lacks anew, as it does after a kill.
    assert found == _study_file()[1][: len(found)]


TARGETS: Final[dict[str, Target]] = {
    "state": Target(_write, _read, _check_same),
    "state, earlier": Target(_write_earlier, _read, _check_kind),
}
if find_spec("optuna"):
    TARGETS["state, study"] = Target(
        _write_study, lambda folder: _study(folder).trials, _check_study
    )
