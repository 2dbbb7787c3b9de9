"""What does a covariance in one pass over a file cost, against one of everything in memory?

Rows of float32 are written to a temporary file, read back as a memory map, and taken in by
``FeatureMoments`` block by block. ``torch.cov`` then gets the same rows in memory, as float32 and
as float64, the precision of the streamed result. Peak memory is the resident memory of the process
above what it was before.

    python benchmarks/streaming_covariance.py --threads 2
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from measuring import write_csv
from threadpoolctl import threadpool_limits

from drgcn.stability import FeatureMoments

CHUNK = 1 << 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    threadpool_limits(args.threads)  # numpy has threads of its own
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        write_rows(path, args.rows, args.features)
        mapped = np.load(path, mmap_mode="r")
        FeatureMoments(args.features).update(mapped[:CHUNK])  # libraries load on first use
        streamed, seconds, megabytes = measured(lambda: covariance(path))
        rows = [entry("streamed, float64", seconds, megabytes, seconds, 0.0)]
        x = torch.from_numpy(np.array(mapped))
        for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
            y = x.to(dtype)
            whole, taken, megabytes = measured(lambda y=y: torch.cov(y.T, correction=0))
            error = float((whole.double() - streamed).abs().max() / streamed.abs().max())
            rows.append(entry(f"torch.cov in memory, {name}", taken, megabytes, seconds, error))
            del y
    write_csv("streaming_covariance", rows, torch.device("cpu"), args.out)


def covariance(path: Path) -> torch.Tensor:
    mapped = np.load(path, mmap_mode="r")
    return FeatureMoments(mapped.shape[1]).update(mapped).covariance()


def write_rows(path: Path, rows: int, features: int) -> None:
    """Correlated features of different scales, far from zero."""
    draw = np.random.default_rng(0)
    mixing = draw.standard_normal((features, features)).astype(np.float32)
    file = np.lib.format.open_memmap(path, "w+", np.float32, (rows, features))
    for start in range(0, rows, CHUNK):
        size = min(CHUNK, rows - start)
        block = draw.standard_normal((size, features), dtype=np.float32) @ mixing
        file[start : start + size] = block + 100
    file.flush()


def entry(
    name: str, taken: float, megabytes: float, streamed: float, error: float
) -> dict[str, object]:
    return {
        "way": name,
        "seconds": round(taken, 2),
        "peak_extra_mb": round(megabytes),
        "streamed_over_this": round(streamed / taken, 2),
        "largest_difference": f"{error:.1e}",
    }


def measured(work: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float, float]:
    """Result, seconds, and megabytes of resident memory at the peak above the start."""
    before, peak, done = resident(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    return result, seconds, max(peak - before, 0.0)


def resident() -> float:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
