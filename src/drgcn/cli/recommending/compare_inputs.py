"""What ``drgcn recommend compare`` was asked to compare, and on which clicks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from drgcn.cli.recommending.train_inputs import Model
from drgcn.errors import InputError

if TYPE_CHECKING:
    from drgcn.recommend.clicks import ClickData


def study_clicks(name: str, fraction: float, device: Any, root: Path | None) -> ClickData:
    """The clicks of a name or folder, or so much of ``astar``."""
    from drgcn.recommend.clicks import load_clicks

    if name != "astar":
        return load_clicks(name, root)
    from drgcn.recommend.synthetic import generate_astar

    return generate_astar(fraction, device=device)


def chosen_gates(text: str, more: list[str], model: Model) -> list[Any]:
    """The gates that were asked for, with commas or spaces between; all if none was."""
    from drgcn.recommend.study.settings import GATES

    names = [*text.replace(",", " ").split(), *more]
    if not names:
        return ["none"] if model is Model.lightgcn else list(GATES)
    if unknown := [name for name in names if name not in GATES]:
        raise InputError(f"Expected gates of {', '.join(GATES)}; found {unknown[0]!r}.")
    return names


def searched_rates(text: str | None) -> list[float]:
    """``lr=3e-4,1e-3`` as numbers."""
    if text is None:
        return []
    name, _, values = text.partition("=")
    try:
        found = [float(value) for value in values.split(",")]
    except ValueError:
        found = []
    if name != "lr" or not found or min(found) <= 0:
        raise InputError(f"Expected --search such as lr=3e-4,1e-3,3e-3; found {text!r}.")
    return found
