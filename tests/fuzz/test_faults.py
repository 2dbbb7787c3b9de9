"""A step that fails, at every place of a verb: one sentence or a success, nothing half-written,
and the next run comes to the same result."""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from drgcn.cli import main

from .faults import FAULTY, KINDS, NUMBERS, Fault, defects, told_by
from .kills import names
from .steps import steps_seen

pytest.importorskip("duckdb")


def _sweep(
    name: str,
    tmp_path: Path,
    places: Callable[[int], Iterator[int]],
    kinds: Sequence[str] = KINDS,
) -> int:
    """Let steps of a verb fail, some of each kind; return how many."""
    verb = FAULTY[name]
    (tmp_path / "source").mkdir()
    verb.prepare(tmp_path / "source")
    whole = shutil.copytree(tmp_path / "source", tmp_path / "whole")
    counted = Fault(whole)
    code, lines = told_by(verb.run, whole, counted)
    assert code == 0, lines
    expected, files = verb.result(whole), names(whole)
    wrong, tried = [], 0
    for kind in kinds:
        for place in places(counted.counts[kind]):
            fault = Fault(whole, kind, place, NUMBERS[place % len(NUMBERS)])
            folder = tmp_path / f"{kind}-{place}"
            found = defects(verb, tmp_path / "source", folder, fault, expected, files)
            what = f"{kind} {place} of {counted.counts[kind]}, {errno.errorcode[fault.number]}"
            wrong += [f"{what}: {words}" for words in found]
            tried += 1
    assert not wrong, "\n".join(wrong)
    return tried


# A file that cannot be written to its end is left by NumPy to be closed with its owner.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FAULTY)
def test_no_step_that_fails_does_harm(name: str, tmp_path: Path) -> None:
    assert _sweep(name, tmp_path, lambda count: iter(range(count))) > 8


@pytest.mark.parametrize("name", ["train, cut off", "refine"])
def test_some_steps_that_fail_do_no_harm(name: str, tmp_path: Path) -> None:
    """The middle one of each kind; all of them are the slow form."""
    assert _sweep(name, tmp_path, lambda count: iter([count // 2][:count])) >= 5


def test_what_the_system_does_not_read_is_neither_a_trial_nor_left_out(tmp_path: Path) -> None:
    """Reads while a trial is trained, and of the records that are summed at the end."""
    assert _sweep("tune", tmp_path, lambda count: iter([6, count - 7]), ["read"]) == 2


def test_a_folder_that_could_not_be_removed_at_once_is_not_left(tmp_path: Path) -> None:
    assert _sweep("recommend ingest", tmp_path, lambda count: iter([count - 2]), ["read"]) == 1


def test_steps_are_seen_and_can_fail(tmp_path: Path) -> None:
    """Else the tests above would find nothing."""
    seen: Counter[str] = Counter()

    def look(kind: str, path: str) -> None:
        seen[kind] += 1
        if kind == "link":
            raise OSError(errno.EIO, "no link", path)

    (tmp_path / "a").write_text("a")
    with steps_seen(tmp_path, look):
        assert (tmp_path / "a").read_text() == "a"
        (tmp_path / "b").write_text("b")
        (tmp_path / "b").replace(tmp_path / "c")
        with pytest.raises(OSError, match="no link"):
            (tmp_path / "d").hardlink_to(tmp_path / "c")
    assert seen == {"read": 1, "open": 1, "rename": 1, "link": 1}


def test_half_a_page_is_never_there(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """A disk that fills up while a page is written leaves the page that was there before."""
    page = tmp_path / "page.html"
    page.write_text("the page of yesterday")
    monkeypatch.setattr("sys.argv", ["drgcn", "audit", "wine", "--html", str(page)])
    fault = Fault(tmp_path, "write", 0)
    said = told_by(lambda _: main(), tmp_path, fault)
    assert said[0] == 2
    assert said[1][-1].startswith("error: Expected room on the disk")
    assert page.read_text() == "the page of yesterday"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
