"""Arrays written piece by piece."""

import random

import numpy as np
import pyarrow as pa
import pytest

from drgcn.recommend.clicks import ClickData, ClickGraph, IngestSettings, ingest
from drgcn.recommend.clicks import ingest_sql as workshop
from drgcn.recommend.clicks.ingest import NpyStream, write_clicks

from .tables import clicks_of, pairs_by_item, random_events, write_csv


@pytest.mark.parametrize("pieces", [[], [0], [5], [3, 0, 4], [1] * 200])
def test_a_file_that_grows(tmp_path, pieces):
    values = np.arange(sum(pieces), dtype=np.int16)
    with NpyStream(tmp_path / "a" / "b.npy", np.int16) as stream:
        for end, length in zip(np.cumsum(pieces), pieces, strict=True):
            stream.append(values[end - length : end].astype(np.int64))
    found = np.load(tmp_path / "a" / "b.npy")
    assert found.dtype == np.int16
    assert found.tolist() == values.tolist()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("with_days", [True, False])
def test_batches_may_end_anywhere(tmp_path, seed, with_days):
    draw = random.Random(seed)
    rows = sorted((draw.randrange(12), draw.randrange(4), draw.randrange(5)) for _ in range(80))
    ends = sorted(draw.randrange(81) for _ in range(25))  # some batches are empty
    batches = []
    for begin, end in zip([0, *ends], [*ends, 80], strict=True):
        columns = list(zip(*rows[begin:end], strict=True)) or [(), (), ()]
        arrays = [pa.array(column, pa.int32()) for column in columns]
        batches.append(pa.record_batch(arrays, names=["u", "i", "d"]))
    first = {}
    for user, item, day in rows:
        first.setdefault((user, item), day if with_days else None)
    assert write_clicks(batches, tmp_path, 13, 5, with_days) == len(first) < 80
    graph = ClickGraph.load(tmp_path)
    assert clicks_of(graph) == first
    assert pairs_by_item(graph) == list(first)
    assert (graph.num_users, graph.num_items) == (13, 5)


def test_the_size_of_batches_does_not_matter(tmp_path, monkeypatch):
    pytest.importorskip("duckdb")
    clicks = write_csv(tmp_path / "c.csv", ("user", "item", "time"), random_events(0))
    rows = [(f"u{k}", k, "abc"[k % 3]) for k in range(60)]
    users = write_csv(tmp_path / "u.csv", ("user", "age", "kind"), rows)
    settings = IngestSettings(threads=1)
    hashes = []
    for size in (2**20, 7):
        monkeypatch.setattr(workshop, "_BATCH", size)
        ingest(clicks, tmp_path / f"{size}", users=users, settings=settings)
        hashes.append(ClickData.load(tmp_path / f"{size}").content_hash)
    assert hashes[0] == hashes[1]
