"""How much memory there is to use."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_SHARE = 0.5


def default_memory() -> str:
    """Half of the machine's memory, or of what its control group allows, for DuckDB."""
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # "max", or no control groups
        limit = min(limit, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return f"{int(limit * _SHARE / 2**20)}MiB"
