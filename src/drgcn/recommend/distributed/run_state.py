"""State that ranks share: one copy of the training clicks, and a line for each attempt."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from drgcn._io import whole_folder
from drgcn.errors import InputError
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.distributed.group import GroupExchange

ATTEMPTS = "attempts.jsonl"
Parts = tuple[ClickGraph, ClickGraph | None]
_GRAPH, _TARGETS = "graph", "targets"


def note_attempt(folder: Path, checkpoint: Path, exchange: GroupExchange) -> None:
    """Adds a line to the run's folder: where each rank is, and the step it all goes on from.

    Args:
        folder: Folder of the run; rank 0 writes.
        checkpoint: The run's checkpoint, if there is one yet.
        exchange: The other ranks.
    """
    ranks = exchange.gather_values(_location())
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


def _location() -> dict[str, Any]:
    found: dict[str, Any] = {"host": platform.node(), "pid": os.getpid()}
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        found["ray_node"] = ray.get_runtime_context().get_node_id()
    return found


def shared_clicks(make: Callable[[], Parts], folder: Path, exchange: GroupExchange) -> Parts:
    """Clicks that rank 0 makes and writes, and all ranks map into memory.

    A graph without the day that is held back is a new graph: made by every rank, it would be in
    memory as many times as there are ranks. Mapped, ranks of one machine share its pages.

    Args:
        make: Makes the clicks that give neighbours, and those to learn if they are others.
        folder: Where to; taken as it is if it is there, for it is there as a whole or not at all.
            Its name has to say what is in it. All machines must see it.
        exchange: The other ranks.

    Raises:
        InputError: On every rank, if it was raised on rank 0 by ``make``.
    """
    refused = ""
    if exchange.rank == 0 and not folder.exists():
        try:
            _write(make(), folder)
        except InputError as error:
            refused = str(error)
    refused = exchange.gather_values(refused)[0]
    if refused:
        raise InputError(refused)
    if not folder.is_dir():
        raise InputError(
            f"Expected {folder}, which rank 0 wrote, on the machine of rank {exchange.rank} too; "
            "it is not there. All machines must see the folder of the run."
        )
    has_targets = (folder / _TARGETS).is_dir()
    return (
        ClickGraph.load(folder / _GRAPH),
        ClickGraph.load(folder / _TARGETS) if has_targets else None,
    )


def remove_shared(folder: Path) -> None:
    """Removes what :func:`shared_clicks` wrote; who has mapped it keeps it."""
    shutil.rmtree(folder, ignore_errors=True)


def _write(parts: Parts, folder: Path) -> None:
    with whole_folder(folder) as partial:
        for name, part in zip((_GRAPH, _TARGETS), parts, strict=True):
            if part is not None:
                (partial / name).mkdir()
                part.save(partial / name)
