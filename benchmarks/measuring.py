"""What the benchmark scripts share: results as CSV files named after hardware and versions."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import torch

from drgcn.records import device_name


def write_csv(
    name: str, rows: Sequence[dict[str, object]], device: torch.device, out: Path
) -> None:
    """Prints the rows, and writes them beside the others."""
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
    print(path.read_text(encoding="utf-8"), path, sep="\n")
