"""Advice on a dataset as one self-contained page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import numpy as np
import numpy.typing as npt

from drgcn._format import plural
from drgcn.reporting.charts import SERIES, WIDE, Axis, Chart
from drgcn.reporting.page import write_html
from drgcn.reporting.tables import Table
from drgcn.studies.advice.advice import Advice
from drgcn.studies.advice.learnt_gates import LearntGates, damping, order_of
from drgcn.studies.comparison import k_words
from drgcn.studies.report.measurements import share_words

LABELS = {
    "rows": "rows",
    "features": "features",
    "constant": "constant features",
    "spread": "spread of variances",
    "loudest": "largest variance over the median of the others",
    "k_std": "K of 1/std",
    "k_range_2": "least K, gates within a factor of 2",
    "k_range_4": "least K, gates within a factor of 4",
    "k_disc": "K of weights by class share",
    "saturation_risk": "gate entries stuck before training",
}
_SIZE = (WIDE, 240.0)
# From here on single dimensions are too narrow to see: a running median shows the trend.
_MANY = 100


def shown(advice: Advice) -> list[tuple[str, str]]:
    """Label and value of every number."""
    return [(words, number(getattr(advice, name))) for name, words in LABELS.items()]


def number(value: float | None) -> str:
    """A number as a reader wants it."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"


def write_page(
    advice: Advice, path: Path, *, title: str, learnt: Sequence[LearntGates] = ()
) -> Path:
    """Write the page; return its path.

    Args:
        advice: What it says.
        path: Where to write.
        title: Its heading.
        learnt: Gates of some seeds, to draw beside the variances and against epochs.
    """
    return write_html(
        path,
        __package__,
        "advice.html.jinja",
        title=title,
        numbers=Table((), shown(advice), title=title, left=1),
        advice=advice,
        variances=variance_charts(advice.variance, learnt),
        layers=_layer_table(learnt),
        curves=k_chart(learnt) if learnt else "",
        damping=damping_words(advice.variance, learnt) if learnt else "",
        seeds=len(learnt),
    )


def damping_words(variance: Sequence[float], learnt: Sequence[LearntGates]) -> str:
    """Say in one sentence whether loud dimensions got smaller gates."""
    found = damping(variance, learnt)
    if not found:
        return "The learnt gates are constant: no dimension is damped more than another."
    low, high = min(found), max(found)
    numbers = (
        f"rank correlation of variance and s {mean(found):+.2f} on average over seeds, from "
        f"{low:+.2f} to {high:+.2f}"
    )
    order = order_of(found, sum(v > 0 for v in variance))
    if order == "amplified":
        return f"In every seed louder dimensions got larger gates, not smaller ones ({numbers})."
    if order == "damped":
        return f"In every seed louder dimensions got smaller gates: Dr damped them ({numbers})."
    return f"There is no clear order of loud dimensions and gates beyond chance ({numbers})."


def _layer_table(learnt: Sequence[LearntGates]) -> Table:
    """Per layer: its number, mean K, its range over seeds, mean share of stuck entries."""
    rows = []
    for layer in range(len(learnt[0].k) if learnt else 0):
        known = [k for one in learnt if (k := one.k[layer]) is not None]
        stuck = mean(one.saturation[layer] for one in learnt)
        rows.append(
            (
                str(layer + 1),
                k_words([mean(known) if known else None]),
                f"{k_words([min(known)])} to {k_words([max(known)])}" if known else "-",
                share_words([stuck]),
            )
        )
    heads = ("layer", f"K, mean of {len(learnt)} seeds", "least to greatest", "gate entries stuck")
    return Table(heads, rows, title="K per layer", left=1)


def variance_charts(variance: Sequence[float], learnt: Sequence[LearntGates] = ()) -> list[str]:
    """Draw the variance of every dimension, loudest first, and the learnt s of the same ones.

    Dimensions that do not vary are left out of both.

    Args:
        variance: Variance of each dimension.
        learnt: Gates of some seeds. (default: none, and no second chart)
    """
    loud = np.array(variance)
    order = np.argsort(-loud, kind="stable")
    order = order[loud[order] > 0]
    places = list(range(1, len(order) + 1))
    room = 0.5 + 0.02 * len(order)
    words = "feature dimension, loudest first"
    across = Axis(1 - room, len(order) + room, words, whole=True)
    values = loud[order].tolist()
    ends = f" from {values[0]:.3g} to {values[-1]:.3g}" if values else ""
    alt = f"variance of {plural(len(values), 'dimension')}, loudest first,{ends}"
    chart = Chart(across, Axis.around(values, "", log=True), "variance", size=_SIZE, alt=alt)
    chart.points(places, values, f"one{_size_class(places)}")
    if not learnt:
        return [chart.svg()]
    gates = np.array([one.s for one in learnt])[:, order]
    return [chart.svg(), _gate_chart(across, places, gates)]


def k_chart(learnt: Sequence[LearntGates]) -> str:
    """Draw K of every layer against epochs: every seed thin, their mean thick."""
    epochs = np.array(learnt[0].epochs)
    # [seeds, epochs, layers]; undefined values are NaN, and leave gaps.
    k = np.array([one.k_by_epoch for one in learnt], dtype=float)
    known = [value for value in k.flat if not math.isnan(value)]
    high = 1.06 * max([1.0, *known])
    chart = Chart(
        Axis(0, 1.2 * max(epochs[-1], 1), "epoch (0: before training)", log=True, from_zero=True),
        Axis(min([0.0, *known]), high, ""),
        "K",
        size=_SIZE,
        alt=f"K by epoch of {plural(k.shape[2], 'layer')}, {plural(len(learnt), 'seed')}",
    )
    for layer in range(k.shape[2]):
        kind, values = SERIES[layer % len(SERIES)], k[:, :, layer]
        there = ~np.isnan(values).all(0)
        at, values = epochs[there].tolist(), values[:, there]
        if at:
            low, high_line = np.nanmin(values, 0).tolist(), np.nanmax(values, 0).tolist()
            chart.band(at, low, high_line, kind)
        for seed in values:
            own = ~np.isnan(seed)
            chart.line(np.array(at)[own].tolist(), seed[own].tolist(), f"{kind} thin")
        if at:
            average = np.nanmean(values, 0).tolist()
            chart.line(at, average, kind)
            chart.points(at, average, f"{kind} large")
        chart.key(f"layer {layer + 1}", kind)
    chart.segment((chart.x.low, chart.x.high), (1, 1), "zero")
    for one in learnt:
        chart.triangle(one.best_epoch, "ink")
    chart.key("kept epoch", "ink")
    return chart.svg()


def _gate_chart(across: Axis, places: list[int], gates: npt.NDArray[np.float64]) -> str:
    """Mean over seeds with a band from the least to the greatest, of gates ``[seeds, d]``."""
    title = "learnt s, layer 1"
    alt = f"{title}, of the same dimensions, {plural(len(gates), 'seed')}"
    chart = Chart(across, Axis(-0.04, 1.04, ""), title, size=_SIZE, alt=alt)
    average, low, high = (line.tolist() for line in (gates.mean(0), gates.min(0), gates.max(0)))
    if len(places) <= _MANY:
        for place, least, greatest in zip(places, low, high, strict=True):
            chart.segment((place, place), (least, greatest), "range two")
        for seed in gates:
            chart.points(places, seed.tolist(), "two")
        chart.key("each seed (small)", "two")
    else:
        chart.band(places, low, high, "two")
    chart.points(places, average, f"two{_size_class(places)}")
    chart.key("mean over seeds", "two")
    if len(places) > _MANY:
        chart.line(places, _running_median(gates.mean(0)), "ink")
        chart.key("its running median", "ink")
    return chart.svg()


def _size_class(places: list[int]) -> str:
    return " large" if len(places) <= _MANY else ""


def _running_median(values: npt.NDArray[np.float64]) -> list[float]:
    """The median of each value and its neighbours, a fortieth of all; fewer at the ends."""
    half = max(len(values) // 80, 1)
    return [float(np.median(values[max(i - half, 0) : i + half + 1])) for i in range(len(values))]
