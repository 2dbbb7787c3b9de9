"""Sentences about the recommendation job at full size, from its records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from drgcn.reporting.tables import Table

GATES = ("none", "constant", "static", "dr")
FOLDER = Path(__file__).parent.parent / "results" / "recommend"


def speed_words() -> str:
    """What the largest run with Dr took, stage by stage."""
    runs = [run for run in _runs() if run["gate"] == "dr" and "searched" in run]
    if not runs:
        return "Not measured yet."
    run = max(runs, key=lambda run: run["clicks"])
    seconds = run["seconds"]
    half = " (products in bfloat16)" if run["settings"]["bfloat16"] else ""
    return (
        f"On one {run['environment']['device']}, with {run['users']:,} users, {run['items']:,} "
        f"items and {run['clicks']:,} clicks: drawing the clicks {seconds['generate']:.1f} s, "
        f"an epoch of {run['train_clicks']:,} clicks {seconds['train']:.0f} s with Dr{half}, all "
        f"embeddings {seconds['embed']:.1f} s, and the exact 50 best items of all "
        f"{run['searched']:,} users {seconds['search all users']:.0f} s, in "
        f"{run['peak_gib']:.0f} GiB."
    )


def recall_table() -> str:
    """Recall of every run with its interval over users, and the distance to no gate."""
    header = ["size", "learning rate", "gate", "seed", "Recall@50 in % [95 %]", "against none"]
    header += ["warm", "cold", "popularity"]
    rows = []
    runs = sorted(_runs(), key=_order)
    plain = {_pair(run): run for run in runs if run["gate"] == "none"}
    for run in runs:
        found, popular = run["recall"]["model"], run["recall"]["popularity"]["all"]["recall"]
        every = found["all"]["recall"]
        low, high = 100 * every["low"], 100 * every["high"]
        base = plain.get(_pair(run))
        far = "" if base is None or base is run else f"{_percent(run) - _percent(base):+.2f}"
        cells = [
            f"{run['fraction']:g}",
            f"{run['settings']['lr']:g}",
            run["gate"],
            str(run["seed"]),
        ]
        cells += [f"{100 * every['mean']:.2f} [{low:.2f}, {high:.2f}]", far]
        cells += [f"{100 * found[group]['recall']['mean']:.2f}" for group in ("warm", "cold")]
        rows.append([*cells, f"{100 * popular['mean']:.2f}"])
    return Table(header, rows).markdown("cells")


def _pair(run: dict[str, Any]) -> tuple[float, float, int]:
    return run["fraction"], run["settings"]["lr"], run["seed"]


def _order(run: dict[str, Any]) -> tuple[float, float, int, int]:
    fraction, rate, seed = _pair(run)
    return -fraction, rate, seed, GATES.index(run["gate"])


def _percent(run: dict[str, Any]) -> float:
    return 100 * float(run["recall"]["model"]["all"]["recall"]["mean"])


def _runs() -> list[dict[str, Any]]:
    paths = sorted(FOLDER.glob("astar-*-seed-*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]
