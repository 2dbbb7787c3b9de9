"""Fail one step of a verb, in this process: the n-th time that something is opened to write, read,
synced, renamed or linked below a folder; or leave no room on the disk from the n-th file on."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import resource
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest
from safetensors import SafetensorError

from drgcn.errors import DrgcnWarning
from drgcn.records import load_sealed

from .kills import (
    FINISHED,
    VERBS,
    Verb,
    _shop,
    _unless_there,
    contents,
    names,
    recommend_train,
    records,
)
from .steps import module, steps_seen

KINDS: Final = ("open", "write", "fsync", "rename", "link", "read")
_RESULTS: Final = Path(__file__).parents[2] / "results"
NUMBERS: Final = (errno.ENOSPC, errno.EIO, errno.EACCES)


@dataclass
class Fault:
    """A step that fails once.

    Attributes:
        folder: Where.
        kind: Which of :data:`KINDS`; ``""`` for none, to count.
        place: Which one of that kind, from 0.
        number: The system's number of the error.
        counts: Steps so far, by kind.
    """

    folder: Path
    kind: str = ""
    place: int = 0
    number: int = errno.EIO
    counts: Counter[str] = field(default_factory=Counter)

    def step(self, kind: str, path: str) -> None:
        """Count a step, and fail if it is the one."""
        for counted in (kind, "write") if kind == "open" else (kind,):
            self.counts[counted] += 1
            if counted == self.kind and self.counts[counted] == self.place + 1:
                self._fail(path)

    def _fail(self, path: str) -> None:
        if self.kind != "write":
            raise OSError(self.number, os.strerror(self.number), path)
        # Every file may have a few bytes more, and then the disk is full until the verb ends.
        resource.setrlimit(resource.RLIMIT_FSIZE, (8, resource.RLIM_INFINITY))


@contextlib.contextmanager
def failing(fault: Fault) -> Iterator[None]:
    """Let the steps of this process go through a fault."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with steps_seen(fault.folder, fault.step):
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def told_by(run: Callable[[Path], None], folder: Path, fault: Fault) -> tuple[int, list[str]]:
    """Run a verb in a folder with a fault; return its exit code and the lines that it said."""
    said, before = io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with (
            contextlib.redirect_stderr(said),
            contextlib.redirect_stdout(said),
            warnings.catch_warnings(),
            failing(fault),
        ):
            warnings.simplefilter("always", DrgcnWarning)  # printed, as for who runs the verb
            run(folder)
        code = 0
    except SystemExit as ending:
        code = int(ending.code or 0)
    finally:
        os.chdir(before)
    return code, said.getvalue().splitlines()


def defects(
    verb: Verb, source: Path, place: Path, fault: Fault, expected: Any, files: set[str]
) -> list[str]:
    """Run a verb with a fault and then without; return what is not as it should be."""
    folder = shutil.copytree(source, place)
    fault.folder = folder
    try:
        code, lines = told_by(verb.run, folder, fault)
    except Exception as error:  # a traceback, for who runs the verb
        return [f"{type(error).__name__}: {error}"]
    found = []
    errors = [line for line in lines if line.startswith("error: ")]
    if code not in verb.codes or (code == 2 and len(errors) != 1) or len(errors) > 1:
        found.append(f"exit code {code}: {lines[-3:]}")
    if code == 0 and verb.result(folder) != expected:
        found.append("a success with another result")
    found += [f"half-written: {name}" for name in _half_written(folder)]
    found += [f"left: {path.name}" for path in folder.rglob("*.partial*")]
    code, lines = told_by(verb.run, folder, Fault(folder))
    if code not in (0, FINISHED):
        found.append(f"the next run ends with {code}: {lines[-3:]}")
    elif verb.result(folder) != expected:
        found.append("the next run comes to another result")
    elif left := names(folder) ^ files:
        found.append(f"other files after the next run: {sorted(left)}")
    shutil.rmtree(folder)
    return found


def _half_written(folder: Path) -> list[str]:
    """Files under their own names that cannot be read."""
    wrong = []
    for path in sorted(folder.glob("out/**/*")):
        try:
            if path.suffix == ".json":
                load_sealed(path)
            elif ".safetensors" in path.name and ".partial" not in path.name:
                with module("training.checkpoint").safe_open(path, framework="pt") as file:
                    list(file.keys())
        except (OSError, ValueError, SafetensorError) as error:
            wrong.append(f"{path.name} ({error})")
    return wrong


class _InThisProcess:
    """Jobs of a reproduction one after the other, where faults are."""

    workers = threads_each = 1

    def __init__(self, *_: Any) -> None: ...

    def __call__(self, jobs: Any, out: Path, **options: Any) -> Iterator[Any]:
        options.pop("watch")
        for job in jobs:
            yield module("studies.reproduce.backend").attempt(job, out, **options)


def _reproduce(folder: Path) -> None:
    from ..studies.reproduce.small_plan import cell, experiment, table_of

    gates = {"GCN": None, "Dr-GCN": "dr"}
    cells = [cell(row, "wine", experiment(reweight=g, epochs=2)) for row, g in gates.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drgcn.studies.reproduce.plan.paper_table_of", lambda _: table_of(cells))
        patch.setattr("drgcn.studies.reproduce.processes.ProcessRunner", _InThisProcess)
        _command("reproduce", "small", "--seeds", "1", "--device", "cpu", "--out", "out")(folder)


def _command(*words: str) -> Callable[[Path], None]:
    def run(_: Path) -> None:
        sys.argv = ["drgcn", *words]
        with pytest.MonkeyPatch.context() as patch:
            runs = module("studies.run")
            usual = {**runs.run.__kwdefaults__, "checkpoint_every": 0.0}
            patch.setattr(runs.run, "__kwdefaults__", usual)
            module("cli").main()

    return run


def _records(folder: Path) -> None:
    """Some records to report."""
    for name in ("records", "out"):
        (folder / name).mkdir()
    for path in sorted(_RESULTS.glob("wine-random-gcn-*-seeds-0-19.json"))[:2]:
        shutil.copy(path, folder / "records")


def _page(folder: Path) -> Any:
    """Whether there is a whole page, and the records: one that cannot be read is named in a
    warning and left out of a report."""
    whole = (folder / "out" / "page.html").read_text().rstrip().endswith("</html>")
    return whole, [path.read_bytes() for path in sorted(folder.glob("records/*"))]


def _cut_off(run: Callable[[Path], None], kind: str, place: int) -> Callable[[Path], None]:
    """Return the preparation of a run that was cut off, and goes on with what it left."""

    def prepare(folder: Path) -> None:
        told_by(run, folder, Fault(folder, kind, place, errno.EIO))

    return prepare


_TRAIN = _command(
    *("train", "wine", "--seeds", "2", "--epochs", "3", "--hidden", "4", "--out", "out"),
    *("--device", "cpu"),
)
_TUNE = _command(
    *("tune", "wine", "--trials", "2", "--seeds", "1", "--fresh-seeds", "1", "--epochs", "2"),
    *("--out", "out", "--device", "cpu"),
)
_BASELINES = _command(
    *("baselines", "wine", "digits", "--method", "label-propagation", "--seeds", "1"),
    *("--out", "out"),
)
_COMPARE = _command(
    *("recommend", "compare", "clicks", "--gates", "dr", "--seeds", "1", "--split", "time"),
    *("--epochs-max", "2", "--batch-size", "64", "--channels", "4", "--fan-outs", "2,2", "--n"),
    *("5", "--device", "cpu", "--checkpoint-every", "0", "--out", "out"),
)
_GENERATE = _unless_there(("recommend", "generate", "--fraction", "0.0001", "--out", "out"), "out")
_PAGES = {
    "audit --html": _command("audit", "wine", "--html", "out/page.html"),
    "report --html": _command("report", "records", "--html", "out/page.html"),
}
FAULTY: Final[dict[str, Verb]] = {
    "train": Verb(_TRAIN, lambda folder: None, records),
    "train, cut off": Verb(_TRAIN, _cut_off(_TRAIN, "link", 0), records),
    "reproduce": Verb(_reproduce, lambda folder: None, records, codes=(0, 1, 2)),
    "tune": Verb(_TUNE, lambda folder: None, contents),
    "tune, cut off": Verb(_TUNE, _cut_off(_TUNE, "link", 1), contents),
    "recommend train": replace(
        VERBS["recommend train"], run=functools.partial(recommend_train, steps=3)
    ),
    "baselines": Verb(_BASELINES, lambda folder: None, contents),
    "recommend compare": Verb(_COMPARE, _shop, contents),
    "recommend generate": Verb(_GENERATE, lambda folder: None, contents),
    **{name: Verb(run, _records, _page) for name, run in _PAGES.items()},
    **{name: VERBS[name] for name in ("refine", "recommend export", "recommend ingest")},
}
