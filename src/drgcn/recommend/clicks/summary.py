"""A set of clicks in a few numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from drgcn.recommend.clicks.attribute_table import AttributeTable
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.sampling.graph import CSRGraph


def summary(data: ClickData) -> dict[str, Any]:
    """Sizes, degrees, days and attributes as plain values."""
    graph = data.graph
    facts = data.facts()
    for key in ("format", "version"):
        del facts[key]
    return facts | {
        "clicks_per_user": _degrees(graph.by_user),
        "clicks_per_item": _degrees(graph.by_item),
        "days": None if graph.days is None else _days(data),
        "user_attributes": _attributes(data.users),
        "item_attributes": _attributes(data.items),
        "user_ids": _ids(data.user_ids),
        "item_ids": _ids(data.item_ids),
    }


def _degrees(side: CSRGraph) -> dict[str, Any]:
    """Nearest ranks from above, and how many have none."""
    degree = side.degree.sort().values
    last = degree.numel() - 1
    places = {"median": 0.5, "90 %": 0.9, "99 %": 0.99, "most": 1.0}
    ranks = {name: int(degree[round(share * last)]) for name, share in places.items()}
    return ranks | {"none": int((degree == 0).sum())}


def _days(data: ClickData) -> dict[str, Any]:
    first, last = data.graph.day_range
    assert data.graph.days is not None
    counts = torch.bincount(data.graph.days.long() - first)
    if data.parts:
        named = zip(data.parts[first:], counts.tolist(), strict=False)
        return {f"clicks in {part}": count for part, count in named}
    return {"first": first, "last": last, "clicks_on_the_last": int(counts[-1])}


def _attributes(table: AttributeTable | None) -> dict[str, Any] | None:
    if table is None:
        return None
    sizes = zip(table.category_names, table.category_sizes, strict=True)
    return {
        "numbers": list(table.numeric_names),
        "categories": [f"{name} ({size})" for name, size in sizes],
        "missing_numbers": _share(table.numeric, torch.isnan),
        "missing_categories": _share(table.categories, lambda codes: codes < 0),
    }


def _share(values: Tensor, missing: Callable[[Tensor], Tensor]) -> float:
    """Piece by piece: a large table is mapped, not held."""
    count = sum(int(missing(piece).sum()) for piece in values.split(2**20))
    return count / max(1, values.numel())


def _ids(ids: Any | None) -> str:
    if ids is None or not len(ids):
        return "0, 1, 2, ..."
    return f"{ids[0].as_py()} ... {ids[len(ids) - 1].as_py()}"
