"""One copy of the training clicks for all ranks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.clicks.whole_folder import whole_folder
from drgcn.recommend.distributed.group_exchange import GroupExchange

Parts = tuple[ClickGraph, ClickGraph | None]
_GRAPH, _TARGETS = "graph", "targets"


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
    refused = exchange.everybodys(refused)[0]
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
