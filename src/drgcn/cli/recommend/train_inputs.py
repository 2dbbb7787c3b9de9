"""Model, settings and clicks that ``drgcn recommend train`` was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drgcn.cli.options import Gate
from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ClickGraph
from drgcn.recommend.distributed.group import GroupExchange
from drgcn.recommend.distributed.run_state import ATTEMPTS, remove_shared, shared_clicks
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.run_folder import CHECKPOINT, HISTORY, RECORD, WEIGHTS

if TYPE_CHECKING:
    from drgcn.recommend.model.lightgcn import LightGCN
    from drgcn.recommend.model.objectives import TrainSettings
    from drgcn.recommend.model.sage import ClickSAGE


class Model(StrEnum):
    """What is trained."""

    sage = "sage"
    lightgcn = "lightgcn"


class Targets(StrEnum):
    """Which clicks are to be predicted from which."""

    same = "same"
    last_day = "last-day"


_DEFAULTS: dict[Model, dict[str, Any]] = {
    Model.sage: {"epochs": 5.0, "batch_size": 8192, "loss": "softmax", "draw": "clicks"},
    # Those of its authors, on all of their datasets.
    Model.lightgcn: {
        **{"epochs": 1000.0, "batch_size": 2048, "loss": "bpr", "draw": "users"},
        **{"weight_decay": 1e-4},
    },
}
_OPEN = ("epochs", "batch_size", "loss", "draw", "weight_decay")


def chosen_settings(asked: Mapping[str, Any]) -> TrainSettings:
    """How to train, from the options of the command by name; what was not said is the model's."""
    from drgcn.recommend.model.objectives import TrainSettings

    usual = _DEFAULTS[asked["model"]]
    given = {name: asked[name] for name in _OPEN if asked[name] is not None}
    rest = {name: asked[name] for name in ("seed", "steps", "lr", "negatives", "logq", "bfloat16")}
    return TrainSettings(mask_target=not asked["leak"], **rest, **(usual | given))


def chosen_clicks(
    data: ClickData, day: int | None, all_days: bool, targets: Targets
) -> tuple[int | None, ClickGraph, ClickGraph | None]:
    """The day that is held back, the clicks that make neighbours, and those to learn if others."""
    graph = data.graph
    if graph.days is None or all_days:
        if day is not None or targets is Targets.last_day:
            raise InputError(
                "Expected clicks with days, and no --all-days, for --day and --targets last-day."
            )
        return None, graph, None
    last = graph.day_range[1] if day is None else day
    first, end = graph.day_range
    if last > end:
        raise InputError(
            f"Expected --day from {first + 1} to {end}, the days of the clicks; found {last}. "
            f"Choose another, or hold no day back with --all-days."
        )
    seen = graph.until(last)
    if not seen.num_clicks:
        raise InputError(
            f"Expected clicks before day {last}; found none. Days go from {first} to {end}. "
            f"Choose another --day, or --all-days."
        )
    if targets is Targets.same:
        return last, seen, None
    goal = seen.on(seen.day_range[1])
    before = seen.until(seen.day_range[1])
    if not before.num_clicks:
        raise InputError(
            f"Expected clicks on two days before day {last} for --targets last-day; found one."
        )
    return last, before, goal


def build(
    model: Model,
    data: ClickData,
    graph: ClickGraph,
    seed: int,
    gate: Gate,
    channels: int,
    fan_outs: tuple[int, ...],
    layers: int,
    user_ids: int | None,
    item_ids: int | None,
    temperature: float | None,
) -> ClickSAGE | LightGCN:
    """A new model for the clicks, from the options of the command."""
    from drgcn.recommend.model.run_folder import build_lightgcn, build_sage

    options: dict[str, Any] = {} if temperature is None else {"temperature": temperature}
    if model is Model.lightgcn:
        return build_lightgcn(graph, seed, out_channels=channels, num_layers=layers, **options)
    widths: dict[str, Any] = {
        f"{side}_id_channels": asked if asked is not None else 0 if table is not None else channels
        for side, asked, table in (("user", user_ids, data.users), ("item", item_ids, data.items))
    }
    return build_sage(
        data,
        graph,
        seed,
        hidden_channels=channels,
        out_channels=channels,
        fan_outs=fan_outs,
        gate=None if gate is Gate.none else gate.value,
        **widths,
        **options,
    )


def numbers(text: str) -> tuple[int, ...]:
    """``10,5`` as a pair of numbers."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"Expected --fan-outs such as 10,5; found {text!r}.") from None


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
