"""A process that is killed in the middle leaves nothing that loads, and nothing for long."""

import os
import signal
import subprocess
import sys

import pytest

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ingest

from .tables import random_events, write_csv, write_parquet

pytest.importorskip("duckdb")

# Stands in for one step of the work: does it, or does not, and dies.
KILLED = """
import importlib, os, signal, sys

work = importlib.import_module("drgcn.recommend.clicks.ingest")  # the function has its name too

place, first = sys.argv[1], sys.argv[2] == "before"
step = getattr(work, place)

def dying(*arguments, **more):
    if not first:
        step(*arguments, **more)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(work, place, dying)
work.ingest("clicks.parquet", "out", users="users.csv")
"""


def loads(path):
    try:
        ClickData.load(path)
    except InputError:
        return False
    return True


@pytest.mark.parametrize(
    ("place", "when"),
    [
        pytest.param("write_clicks", "before", marks=pytest.mark.slow),
        pytest.param("write_clicks", "after", marks=pytest.mark.slow),
        pytest.param("write_attributes", "after", marks=pytest.mark.slow),
        ("write_manifest", "before"),
    ],
)
def test_killed_in_the_middle(tmp_path, monkeypatch, place, when):
    monkeypatch.chdir(tmp_path)
    write_parquet("clicks.parquet", ("user", "item", "time"), random_events(0, 100))
    write_csv("users.csv", ("user", "age"), [(f"u{k}", k) for k in range(30)])
    words = [sys.executable, "-W", "ignore", "-c", KILLED, place, when]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = {name for name in os.listdir() if name not in ("clicks.parquet", "users.csv")}
    assert len(left) == 1  # it really was in the middle
    assert "out" not in left
    assert not any(loads(folder) for folder, _, _ in os.walk("."))
    ingest("clicks.parquet", "out", users="users.csv")
    assert loads("out")
    assert sorted(os.listdir()) == ["clicks.parquet", "out", "users.csv"]
