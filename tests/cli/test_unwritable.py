"""Every verb of ``drgcn recommend`` that writes, told to write where that cannot be."""

import errno
import os
import resource
import shutil
import sys
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import drgcn.cli
from drgcn.cli.options import expect_file, expect_new_folder, use_folder
from drgcn.errors import InputError

from .recommend_chain import TRAINING

pytest.importorskip("faiss")
pytest.importorskip("duckdb")

STUDY = ("--gates", "none", "--seeds", "1", "--epochs-max", "0.1", "--every", "0.1")
VERBS = {
    "generate": ("generate", "--fraction", "0.0001"),
    "generate-tables": ("generate", "--fraction", "0.0001", "--tables"),
    "ingest": ("ingest", "clicks.parquet"),
    "ingest-lines": ("ingest", "lines"),
    "train": ("train", "clicks", *TRAINING, "--device", "cpu"),
    "train-ranks": ("train", "clicks", *TRAINING, "--device", "cpu", "--workers", "2"),
    "compare": ("compare", "clicks", *STUDY, "--batch-size", "64", "--device", "cpu"),
    "evaluate": ("evaluate", "run", "--n", "5", "--device", "cpu"),
    "export": ("export", "run", "--n", "5", "--device", "cpu"),
    "query": ("query", "export", "--all-users"),
}
FILES = ("evaluate", "query")
FULL = (
    "error: Expected room on the disk for what is written; found none left. Free some, or write "
    "to another place, and run the same command again."
)


@pytest.fixture(scope="module")
def place(chain, tmp_path_factory):
    folder = shutil.copytree(chain[0], tmp_path_factory.mktemp("places"), dirs_exist_ok=True)
    rows = {"user": list(range(500)), "item": [n % 50 for n in range(500)], "time": [0] * 500}
    pq.write_table(pa.table(rows), folder / "clicks.parquet")
    (folder / "lines").mkdir()
    lines = "".join(f"{n} {' '.join(map(str, range(n % 7, 40)))}\n" for n in range(200))
    (folder / "lines" / "train.txt").write_text(lines)
    (folder / "lines" / "test.txt").write_text("3 0\n")
    (folder / "taken").write_text("mine")
    return folder


@pytest.fixture
def refusal(place, monkeypatch, capsys):
    """Runs a verb as a user does, and returns the one line that it says."""
    monkeypatch.chdir(place)

    def run(verb, out, *more):
        name = "lists.csv" if verb == "query" else "record.json"
        out = f"{out}/{name}" if verb in FILES else out
        words = [*VERBS[verb], "--out", out, *more]
        monkeypatch.setattr(sys, "argv", ["drgcn", "recommend", *words])
        before = sorted(path for path in place.rglob("*"))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ending:
            drgcn.cli.main()
        said = capsys.readouterr()
        assert (ending.value.code, said.out) == (2, "")
        left = [path for path in place.rglob("*") if path not in before and path.is_file()]
        assert [path for path in left if not path.match("checkpoint*")] == []
        return said.err.splitlines()

    return run


@pytest.mark.parametrize("verb", ["ingest", "train", "query"])
def test_a_file_on_the_way_is_named(verb, place, refusal):
    (line,) = refusal(verb, "taken/below")
    assert line.startswith("error: Expected --out to be a ")
    assert "; found taken/below" in line
    assert line.endswith(", which is a file, or lies below one. Choose another.")
    assert (place / "taken").read_text() == "mine"


REASONS = {
    errno.EACCES: "which you have no right to write to. Choose another.",
    errno.EROFS: "which is on a read-only file system. Choose another.",
    errno.ENOSPC: "which is on a disk without any room left. Free some room, or choose another.",
}


@pytest.mark.parametrize(
    ("verb", "number"),
    [*((verb, errno.EACCES) for verb in VERBS), ("train", errno.EROFS), ("query", errno.ENOSPC)],
)
def test_a_place_that_cannot_be_written_is_refused_before_any_work(
    verb, number, refusal, monkeypatch
):
    def refuse(*_, **__):  # a superuser may write whatever the permissions say
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("drgcn.cli.options.tempfile.TemporaryFile", refuse)
    (line,) = refusal(verb, "new")
    assert line.startswith("error: Expected --out to be a ")
    assert line.endswith(REASONS[number])
    assert "Errno" not in line


@contextmanager
def files_up_to(size):
    """No file may grow beyond a size: then the system refuses as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


RANKS = pytest.param("train-ranks", marks=pytest.mark.slow)  # processes that start and die


@pytest.mark.parametrize("verb", [RANKS if verb == "train-ranks" else verb for verb in VERBS])
def test_a_disk_that_fills_up_is_one_sentence(verb, refusal, tmp_path):
    with files_up_to(600):
        more = ("--restarts", "0") if verb == "train-ranks" else ()
        lines = refusal(verb, tmp_path / "new", *more)
    assert lines[-1] == FULL
    # On a slow machine a line of progress comes before it.
    shown = ("comparing ", "training ", "warning: ")
    assert [line for line in lines[:-1] if not line.startswith(shown)] == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_is_there_is_left_alone(tmp_path):
    with pytest.raises(InputError, match="is there already"):
        expect_new_folder(tmp_path)
    with pytest.raises(InputError, match="which is a folder"):
        expect_file(tmp_path)
    expect_new_folder(tmp_path / "a" / "b")
    expect_file(tmp_path / "a" / "b.json")
    assert list(tmp_path.iterdir()) == []
    use_folder(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []
