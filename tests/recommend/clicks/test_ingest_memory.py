"""Memory of an ingest follows the limit, not the table."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

pytest.importorskip("duckdb")

MEASURED = """
import json, resource, sys
from drgcn.recommend.clicks import ClickData, IngestSettings, ingest

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

ingest(sys.argv[1], sys.argv[2] + "-warm", settings=IngestSettings(memory=sys.argv[3], threads=1))
before = peak()
report = ingest(
    sys.argv[4], sys.argv[2], settings=IngestSettings(memory=sys.argv[3], threads=1)
)
print(json.dumps([report.clicks, peak() - before, ClickData.load(sys.argv[2]).content_hash]))
"""


@pytest.mark.slow
def test_four_million_events_in_little_memory(tmp_path):
    count, rng = 4_000_000, np.random.default_rng(0)
    columns = {
        "user": rng.integers(0, 900_000, count),
        "item": rng.integers(0, 200_000, count),
        "time": rng.integers(1_700_000_000, 1_701_000_000, count),
    }
    parquet.write_table(pa.table(columns), tmp_path / "all.parquet")
    parquet.write_table(pa.table(columns).slice(0, 1000), tmp_path / "few.parquet")
    found = []
    for limit in ("100MB", "2GB"):
        names = [str(tmp_path / name) for name in ("few.parquet", f"out-{limit}")]
        words = [sys.executable, "-W", "ignore", "-c", MEASURED, *names, limit]
        done = subprocess.run(
            [*words, str(tmp_path / "all.parquet")], check=True, capture_output=True, text=True
        )
        found.append(json.loads(done.stdout))
    pairs = len(np.unique(columns["user"] * 200_000 + columns["item"]))
    assert [clicks for clicks, _, _ in found] == [pairs, pairs]
    assert found[0][2] == found[1][2]
    # 96 MB of events; the graph (both sides, mapped) is 40 MB, and turning it round takes as much.
    assert found[0][1] < 350e6
    assert found[0][1] < found[1][1]
