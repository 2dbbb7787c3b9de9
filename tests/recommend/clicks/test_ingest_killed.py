"""A process that is killed in the middle leaves nothing that loads, and nothing for long."""

import importlib
import os
import signal

import pytest

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ingest

from ...children import CHILDREN
from .tables import random_events, write_csv, write_parquet

pytest.importorskip("duckdb")

# The function has the name of its module.
INGEST = importlib.import_module("drgcn.recommend.clicks.ingest")


def ingest_and_die(folder, place, when):
    """Ingests, and is killed before one step of the work or after it."""
    os.chdir(folder)
    step = getattr(INGEST, place)

    def dying(*arguments, **more):
        if when == "after":
            step(*arguments, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(INGEST, place, dying)
    INGEST.ingest("clicks.parquet", "out", users="users.csv")


def loads(path):
    try:
        ClickData.load(path)
    except InputError:
        return False
    return True


@pytest.mark.parametrize(
    ("place", "when"),
    [
        ("write_clicks", "before"),
        ("write_clicks", "after"),
        ("write_attributes", "after"),
        ("write_manifest", "before"),
    ],
)
def test_killed_in_the_middle(tmp_path, monkeypatch, place, when):
    monkeypatch.chdir(tmp_path)
    write_parquet("clicks.parquet", ("user", "item", "time"), random_events(0, 100))
    write_csv("users.csv", ("user", "age"), [(f"u{k}", k) for k in range(30)])
    process = CHILDREN.Process(target=ingest_and_die, args=(tmp_path, place, when))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    left = {name for name in os.listdir() if name not in ("clicks.parquet", "users.csv")}
    assert len(left) == 1  # it really was in the middle
    assert "out" not in left
    assert not any(loads(folder) for folder, _, _ in os.walk("."))
    ingest("clicks.parquet", "out", users="users.csv")
    assert loads("out")
    assert sorted(os.listdir()) == ["clicks.parquet", "out", "users.csv"]
