"""Which processes worked at a run, one line for each time they were started."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from drgcn.recommend.distributed.group_exchange import GroupExchange

ATTEMPTS = "attempts.jsonl"


def note_attempt(folder: Path, checkpoint: Path, exchange: GroupExchange) -> None:
    """Adds a line to the run's folder: where each rank is, and the step it all goes on from.

    Args:
        folder: Folder of the run; rank 0 writes.
        checkpoint: The run's checkpoint, if there is one yet.
        exchange: The other ranks.
    """
    ranks = exchange.everybodys(_whereabouts())
    if exchange.rank:
        return
    line = json.dumps({"step": saved_step(checkpoint), "ranks": ranks})
    with (folder / ATTEMPTS).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def read_attempts(folder: Path) -> list[dict[str, Any]]:
    """The lines so far; one that is being written is left out."""
    path = folder / ATTEMPTS
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def saved_step(checkpoint: Path) -> int:
    """The step that a checkpoint stands at; zero if there is none that can be read."""
    try:
        with safe_open(checkpoint, framework="pt") as file:
            return int(file.get_tensor("step"))
    except (OSError, SafetensorError):
        return 0


def _whereabouts() -> dict[str, Any]:
    found: dict[str, Any] = {"host": platform.node(), "pid": os.getpid()}
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        found["ray_node"] = ray.get_runtime_context().get_node_id()
    return found
