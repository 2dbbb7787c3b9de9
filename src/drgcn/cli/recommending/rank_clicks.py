"""The clicks that a rank of ``drgcn recommend train`` learns from."""

from __future__ import annotations

from pathlib import Path

from drgcn.cli.recommending.train_inputs import Targets, chosen_clicks
from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ClickGraph
from drgcn.recommend.distributed.group import GroupExchange
from drgcn.recommend.distributed.run_state import ATTEMPTS, remove_shared, shared_clicks
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.run_folder import CHECKPOINT, HISTORY, RECORD, WEIGHTS

_SHARED = ".clicks-"


def rank_clicks(
    data: ClickData,
    day: int | None,
    all_days: bool,
    targets: Targets,
    out: Path,
    exchange: Exchange,
) -> tuple[int | None, ClickGraph, ClickGraph | None]:
    """As :func:`chosen_clicks`; of several ranks, one makes the clicks and all map them."""
    if not isinstance(exchange, GroupExchange):
        return chosen_clicks(data, day, all_days, targets)
    exchange.expect_same("clicks", data.content_hash)
    if data.graph.days is None or all_days:  # as they are, which is mapped already
        return chosen_clicks(data, day, all_days, targets)
    last = data.graph.day_range[1] if day is None else day
    folder = out / f"{_SHARED}{data.content_hash[:16]}-{last}-{targets.value}"

    def make() -> tuple[ClickGraph, ClickGraph | None]:
        return chosen_clicks(data, day, all_days, targets)[1:]

    return last, *shared_clicks(make, folder, exchange)


def expect_own(out: Path) -> None:
    """Refuses a folder with files in it of which none is of a run that was cut off."""
    names = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    own = (CHECKPOINT, ATTEMPTS, WEIGHTS, HISTORY, RECORD, ".")
    if names and not any(name.startswith(own) for name in names):
        raise InputError(
            f"Expected --out to be a new folder, or one of a run that was cut off; {out} holds "
            f"other files, such as {names[0]}. Choose another."
        )


def clear_run(out: Path) -> None:
    """Removes what a run needs only until it is written."""
    (out / CHECKPOINT).unlink(missing_ok=True)
    for folder in out.glob(f"{_SHARED}*"):
        remove_shared(folder)
