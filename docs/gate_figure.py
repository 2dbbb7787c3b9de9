"""The picture of Dr against its controls on clicks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from drgcn.recommend.study.tables import GateComparison
from drgcn.stats import mean_interval

_COLORS = {"none": "#1b6ca8", "constant": "#8a8d91", "static": "#d9822b"}


def gate_figure(found: Sequence[GateComparison]) -> Figure | None:
    """Points of recall that Dr adds, with intervals over seeds, for every set with several."""
    sets = [one for one in found if "dr" in one.gates and len(one.records["dr"]) > 1]
    if not sets:
        return None
    figure = Figure(figsize=(8, 0.8 + 0.75 * len(sets)), layout="constrained")
    axes = figure.subplots()
    for place, one in enumerate(sets):
        others = [against for gate, against in one.pairs() if gate == "dr"]
        for step, against in enumerate(others):
            seeds = mean_interval(one.differences("dr", against))
            half = seeds.high - seeds.mean if math.isfinite(seeds.high) else 0.0
            axes.errorbar(
                seeds.mean,
                place + 0.22 * (step - 1),
                xerr=half,
                fmt="o",
                capsize=3,
                color=_COLORS[against],
                label=f"Dr against {against}" if place == 0 else None,
            )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(sets)), [one.any.data["name"] for one in sets])
    axes.invert_yaxis()
    axes.set_xlabel(f"points of Recall@{sets[0].any.settings.n[0]}, 95 % intervals over seeds")
    axes.grid(axis="x", alpha=0.25)
    axes.legend(fontsize=8, loc="best")
    return figure
