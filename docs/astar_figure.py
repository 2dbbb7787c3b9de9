"""The picture of what the synthetic clicks look like."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from drgcn.recommend.clicks import ClickData


def astar_figure(data: ClickData, new_share: list[float]) -> Figure:
    """Tails of both sides, what is new on each day, and the scales of the attributes.

    Args:
        data: The clicks.
        new_share: Share of each day's clicks that fall into the user's rising topic.
    """
    assert data.items is not None
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    figure.suptitle(f"{data.name}: {data.graph.num_clicks:,} clicks", fontsize=11)
    tails, days, scales = figure.subplots(1, 3)
    for side, degree in (
        ("users", data.graph.by_user.degree),
        ("items", data.graph.by_item.degree),
    ):
        tails.loglog(*_at_least(degree), label=side)
    tails.set(xlabel="clicks", ylabel="share with at least as many")
    tails.legend(fontsize=8)
    days.bar(range(len(new_share)), [100 * share for share in new_share])
    days.set(
        xlabel="day", ylabel="% of clicks in rising topics", xticks=range(0, len(new_share), 2)
    )
    spread = _spreads(data.items.numeric)
    scales.semilogy(range(len(spread)), spread, "o", ms=4)
    scales.set(xlabel="column of numbers", ylabel="standard deviation (items)")
    for axes in (tails, days, scales):
        axes.grid(alpha=0.25)
    return figure


def _at_least(degree: Tensor) -> tuple[list[int], list[float]]:
    counts = torch.bincount(degree)
    share = counts.flip(0).cumsum(0).flip(0).double() / degree.numel()
    kept = (counts > 0).nonzero().squeeze(1)
    kept = kept[kept > 0]
    return kept.tolist(), share[kept].tolist()


def _spreads(numeric: Tensor) -> list[float]:
    columns = numeric.double().unbind(1)
    return [float(column[~column.isnan()].std()) for column in columns]
