"""Pictures from run records, of variances, and of learnt gates."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from drgcn.studies.advice.learnt_gates import LearntGates
from drgcn.studies.records import RunRecord, SeedResult

Rows = Sequence[tuple[RunRecord, Mapping[int, SeedResult]]]

# Colour-blind safe (Okabe and Ito), the same gate in the same colour everywhere.
_COLOURS = {None: "#555555", "dr": "#0072B2", "static": "#E69F00", "constant": "#CC79A7"}
_GATES = {None: "plain", "dr": "Dr", "static": "static", "constant": "constant"}

_TITLE = 44  # characters that fit above one panel: matplotlib cuts longer lines at the edges


def comparison_figure(panels: Mapping[str, Rows]) -> Figure:
    """Per dataset every seed's test accuracy, and learning curves below it, or beside if alone."""
    if len(panels) == 1:
        figure = Figure(figsize=(9, 3.2), layout="constrained")
        axes = figure.subplots(1, 2, squeeze=False).T
    else:
        figure = Figure(figsize=(4.2 * len(panels), 5.6), layout="constrained")
        axes = figure.subplots(2, len(panels), squeeze=False)
    for column, (title, rows) in enumerate(panels.items()):
        axes[0, column].set_title(textwrap.fill(title, _TITLE), fontsize=11)
        _draw_seeds(axes[0, column], rows)
        _draw_curves(axes[1, column], rows)
    return figure


def to_svg(figure: Figure) -> str:
    """The figure as text that a page can contain."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def save_figure(figure: Figure, path: Path) -> None:
    """Writes the figure in the format of the path's ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _draw_seeds(axes: Axes, rows: Rows) -> None:
    names = []
    for place, (record, seeds) in enumerate(rows):
        gate = record.experiment.reweight
        points = np.array([100 * result.test_accuracy for result in seeds.values()])
        jitter = np.linspace(-0.18, 0.18, len(points))
        axes.plot(place + jitter, points, "o", ms=3.5, alpha=0.55, color=_COLOURS[gate])
        axes.hlines(points.mean(), place - 0.32, place + 0.32, color=_COLOURS[gate], lw=2)
        axes.annotate(
            f"{points.mean():.1f}", (place + 0.34, points.mean()), va="center", fontsize=8
        )
        names.append(_GATES[gate])
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.2)
    axes.set_ylabel("test accuracy %")
    axes.grid(axis="y", alpha=0.25)


def _draw_curves(axes: Axes, rows: Rows) -> None:
    for record, seeds in rows:
        gate = record.experiment.reweight
        length = min(len(result.curve_val_accuracy) for result in seeds.values())
        curves = np.array([r.curve_val_accuracy[:length] for r in seeds.values()]) * 100
        epochs = record.curve_epochs[:length]
        axes.plot(epochs, curves.mean(0), color=_COLOURS[gate], label=_GATES[gate])
        low, high = np.quantile(curves, [0.1, 0.9], axis=0)
        axes.fill_between(epochs, low, high, color=_COLOURS[gate], alpha=0.12, lw=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_xlabel("epoch")
    axes.set_ylabel("validation accuracy %")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, loc="lower right")


# Colour-blind safe (Okabe and Ito), in the order of layers.
_LAYER_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DARK = "#222222"
# From here on single dimensions are too narrow to see: a running median shows the trend.
_MANY = 100


def variance_figure(variance: Sequence[float], learnt: Sequence[LearntGates] = ()) -> Figure:
    """Variance of every dimension, loudest first; below it the learnt s of the same dimensions.

    Dimensions that do not vary are left out of both.

    Args:
        variance: Variance of each dimension.
        learnt: Gates of some seeds. (default: none, and no second panel)
    """
    figure = Figure(figsize=(8, 5.6 if learnt else 3), layout="constrained")
    axes = figure.subplots(2 if learnt else 1, 1, squeeze=False, sharex=True)[:, 0]
    loud = np.array(variance)
    order = np.argsort(-loud, kind="stable")
    order = order[loud[order] > 0]
    place = np.arange(1, len(order) + 1)
    size = 5.0 if len(order) <= _MANY else 2.0
    axes[0].plot(place, loud[order], "o", ms=size, color=_LAYER_COLOURS[0])
    axes[0].set_yscale("log")
    axes[0].set_ylabel("variance")
    if learnt:
        _draw_gates(axes[1], place, np.array([one.s for one in learnt])[:, order], size)
    axes[-1].set_xlabel("feature dimension, loudest first")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    for one in axes:
        one.grid(alpha=0.25)
    return figure


def k_figure(learnt: Sequence[LearntGates]) -> Figure:
    """K of every layer against epochs: every seed thin, their mean thick."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots()
    epochs = learnt[0].epochs
    # [seeds, epochs, layers]; undefined values are NaN, and leave gaps.
    k = np.array([one.k_by_epoch for one in learnt], dtype=float)
    for layer in range(k.shape[2]):
        colour, values = _LAYER_COLOURS[layer % len(_LAYER_COLOURS)], k[:, :, layer]
        known = ~np.isnan(values).all(0)
        at, values = np.array(epochs)[known], values[:, known]
        axes.plot(at, values.T, color=colour, lw=0.8, alpha=0.5)
        low, high = np.nanmin(values, 0), np.nanmax(values, 0)
        axes.fill_between(at, low, high, color=colour, alpha=0.12, lw=0)
        mean = np.nanmean(values, 0)
        axes.plot(at, mean, "o-", ms=3.5, lw=2, color=colour, label=f"layer {layer + 1}")
    axes.axhline(1, color=_DARK, lw=0.8, ls=":")
    kept = [one.best_epoch for one in learnt]
    bottom = axes.get_xaxis_transform()
    axes.plot(kept, [0.03] * len(kept), "^", color=_DARK, label="kept epoch", transform=bottom)
    axes.set_xscale("symlog", linthresh=1)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_xlim(-0.05, 1.2 * max(epochs[-1], 1))
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    axes.set_xlabel("epoch (0: before training)")
    axes.set_ylabel("K")
    axes.grid(alpha=0.25)
    _legend_above(axes)
    return figure


def _draw_gates(
    axes: Axes, place: npt.NDArray[np.int64], gates: npt.NDArray[np.float64], size: float
) -> None:
    """Mean over seeds with a band from the least to the greatest, of gates ``[seeds, d]``."""
    colour, mean, low, high = _LAYER_COLOURS[1], gates.mean(0), gates.min(0), gates.max(0)
    if len(place) <= _MANY:
        axes.vlines(place, low, high, color=colour, alpha=0.25, lw=7)
        for number, s in enumerate(gates):
            label = "each seed" if number == 0 else None
            axes.plot(place, s, "_", ms=7, color=colour, alpha=0.8, label=label)
    else:
        axes.fill_between(place, low, high, color=colour, alpha=0.25, lw=0, step="mid")
    axes.plot(place, mean, "o", ms=size, color=colour, label="mean over seeds")
    if len(place) > _MANY:
        axes.plot(place, _running_median(mean), color=_DARK, lw=1.6, label="its running median")
    axes.set_ylim(-0.04, 1.04)
    axes.set_ylabel("learnt s, layer 1")
    _legend_above(axes)


def _legend_above(axes: Axes) -> None:
    """Outside, where it hides nothing."""
    axes.legend(
        fontsize=9, loc="lower right", bbox_to_anchor=(1, 1), ncols=4, frameon=False, borderpad=0
    )


def _running_median(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The median of each value and its neighbours, a fortieth of all; fewer at the ends."""
    half = max(len(values) // 80, 1)
    return np.array(
        [np.median(values[max(i - half, 0) : i + half + 1]) for i in range(len(values))]
    )
