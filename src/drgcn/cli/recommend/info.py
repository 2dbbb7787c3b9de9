"""``drgcn recommend info``: what is in a set of clicks."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from drgcn.cli.options import DataRoot, Json


def info(
    clicks: Annotated[str, typer.Argument(help="A folder of clicks, or a known set's name.")],
    data_root: DataRoot = None,
    json: Json = False,
) -> None:
    """Load a set of clicks and say what is in it."""
    from rich.console import Console

    from drgcn.recommend.clicks import load_clicks
    from drgcn.recommend.clicks.data import summary
    from drgcn.reporting.tables import Table

    facts = summary(load_clicks(clicks, data_root))
    if json:
        print(jsonlib.dumps(facts))
        return
    rows = [
        (key.replace("_", " "), _shown(value))
        for key, value in facts.items()
        if value not in ("", None, [], {})
    ]
    Console().print(Table((), rows).rich())


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key.replace('_', ' ')}: {_shown(part)}" for key, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
