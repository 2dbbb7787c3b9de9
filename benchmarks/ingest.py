"""Seconds and memory of reading clicks in, from parquet tables to arrays that training maps.

Draws `astar` tables of each size, then reads them with DuckDB held to ``--memory``. Each step is
a process of its own, so that its peak memory is its own; full size takes about 10 GB of disk.

    python benchmarks/ingest.py --fraction 0.01 0.1 1
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import torch
from measuring import write_csv

_COMMAND = (sys.executable, "-W", "ignore", "-c", "from drgcn.cli import main; main()")
_LOOK_EVERY = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fraction", type=float, nargs="+", default=[0.01, 0.1])
    parser.add_argument("--memory", default="8GB", help="what DuckDB may take")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    rows = []
    for fraction in args.fraction:
        folder = Path(tempfile.mkdtemp())
        try:
            rows += steps(fraction, args.memory, folder)
        finally:
            shutil.rmtree(folder)
    write_csv("ingest", rows, torch.device("cpu"), args.out)


def steps(fraction: float, memory: str, folder: Path) -> list[dict[str, object]]:
    """Both steps at one size."""
    tables, clicks = folder / "tables", folder / "clicks"
    sides = [f"--{side}={tables / side}.parquet" for side in ("users", "items")]
    generate = ["generate", "--fraction", str(fraction), "--tables", "--out", str(tables)]
    read = ["ingest", str(tables / "clicks.parquet"), *sides, "--memory", memory]
    rows: list[dict[str, object]] = []
    for words in (generate, [*read, "--out", str(clicks)]):
        seconds, peak = measured([*_COMMAND, "recommend", *words])
        row = {"fraction": fraction, "step": words[0], "seconds": f"{seconds:.1f}"}
        rows.append({**row, "peak_gib": f"{peak / 2**30:.1f}", "duckdb_memory": memory})
        print(rows[-1], flush=True)
    return rows


def measured(command: list[str]) -> tuple[float, int]:
    """Seconds of a command, and the most memory it held."""
    start, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            # Pages of mapped files can be dropped at any time; they are not held.
            memory = watched.memory_info()
            peak = max(peak, memory.rss - memory.shared)
        except psutil.NoSuchProcess:
            break
        time.sleep(_LOOK_EVERY)
    if process.wait():
        sys.exit(f"{' '.join(command)} failed")
    return time.perf_counter() - start, peak


if __name__ == "__main__":
    main()
