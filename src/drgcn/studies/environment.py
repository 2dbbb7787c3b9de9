"""Where a run took place: versions, hardware, and the state of this package's code."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from functools import lru_cache
from pathlib import Path

import torch

import drgcn


def environment(device: torch.device) -> dict[str, str | int]:
    """What a reader needs to know to compare times, and to repeat numbers."""
    found: dict[str, str | int] = {
        "drgcn": drgcn.__version__,
        "source": source_hash(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": importlib.metadata.version("torch_geometric"),
        "device": device_name(device),
    }
    if device.type == "cpu":
        found["threads"] = torch.get_num_threads()
    return found


def device_name(device: torch.device) -> str:
    """The hardware, in the words of its maker."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@lru_cache(maxsize=1)
def source_hash() -> str:
    """A hash of the installed source files: it changes with the code, committed or not."""
    digest = hashlib.sha256()
    root = Path(drgcn.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
