"""One group of duplicates as a row of a table: its nodes, their parts and labels, the evidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from drgcn.audit.duplicates.groups import DuplicateGroups
from drgcn.audit.duplicates.pairs import DuplicatePairs
from drgcn.audit.graph_view import PARTS, GraphView

COLUMNS = ("nodes", "parts", "labels", "evidence")


def group_row(view: GraphView, found: DuplicateGroups, group: tuple[int, ...]) -> tuple[Any, ...]:
    """The cells of a group below :data:`COLUMNS`."""
    parts = ["/".join(part for part in PARTS if view.mask(part)[node]) or "none" for node in group]
    names = [_label(view, node) for node in group]
    return (
        " ".join(map(str, group)),
        " ".join(parts),
        ", ".join(names),
        ", ".join(_evidence(pairs, group) for pairs in _kinds(found, group)),
    )


def _kinds(found: DuplicateGroups, group: tuple[int, ...]) -> list[DuplicatePairs]:
    inside = [pairs.within(group) for pairs in (*found.pairs(), found.twins)]
    return [pairs for pairs in inside if len(pairs)]


def _evidence(pairs: DuplicatePairs, group: tuple[int, ...]) -> str:
    if pairs.evidence in ("exact features", "structure"):
        return {"exact features": "equal features", "structure": "same neighbours"}[pairs.evidence]
    low, high = pairs.score.min(), pairs.score.max()
    return f"{pairs.evidence} {low:.2f}" + (f" to {high:.2f}" if high - low > 0.005 else "")


def _label(view: GraphView, node: int) -> str:
    if not view.known[node]:
        return "unknown"
    if view.y.ndim == 2:
        return " ".join(view.class_names[label] for label in np.flatnonzero(view.y[node]))
    return view.class_names[view.y[node]]
