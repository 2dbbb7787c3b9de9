"""What the benchmark scripts share: the time of an epoch, and results as CSV files named after
hardware and versions."""

from __future__ import annotations

import csv
import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from drgcn.records import device_name
from drgcn.training import Progress


class EpochClock:
    """Time of the epochs of a pass, without the time to start: give it to ``fit`` as ``progress``.

    Each report closes an interval of about a fifth of a second, in which the device has been
    waited for; an epoch takes the median over them, which a stutter of the machine leaves alone.
    """

    def __init__(self) -> None:
        self.reports: list[tuple[float, float]] = []
        self.begun = time.perf_counter()

    def __call__(self, progress: Progress) -> None:
        """Take the time of a report."""
        # Of networks that are trained in turn, an epoch of some is a part of an epoch of all.
        share = progress.seeds_at_once / progress.seeds
        self.reports.append((time.perf_counter(), progress.epochs_done * share))

    @property
    def seconds_per_epoch(self) -> float:
        """Of all networks of the pass together."""
        if len(self.reports) < 4:
            raise RuntimeError(
                f"Expected at least 4 reports to time an epoch by; found {len(self.reports)}. "
                "Train for more epochs."
            )
        pairs = zip(self.reports, self.reports[1:], strict=False)
        return statistics.median((b - a) / (n - m) for (a, m), (b, n) in pairs)

    @property
    def seconds_to_start(self) -> float:
        """From the making of this clock to the first report, less the epochs until then."""
        seen, epochs = self.reports[0]
        return max(seen - self.begun - epochs * self.seconds_per_epoch, 0.0)


def write_csv(
    name: str,
    rows: Sequence[dict[str, object]],
    device: torch.device,
    out: Path,
    shown: int | None = None,
) -> None:
    """Write the rows beside those of other benchmarks, and print them or the last ``shown``."""
    hardware = device_name(device)
    if device.type == "cpu":
        hardware += f"-{torch.get_num_threads()}-threads"
    words = re.sub(r"[^\w.]+", "-", f"{name}-{hardware}-torch-{torch.__version__}")
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{words}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    lines = path.read_text(encoding="utf-8").splitlines()
    print(*lines[-shown if shown else 0 :], path, sep="\n", flush=True)
