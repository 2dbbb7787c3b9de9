"""Pictures of docs/images: how they are written, and the comparison of gates from run records."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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


def save_figure(figure: Figure, path: Path, dpi: int = 150) -> None:
    """Write the figure as PNG, the same bytes for the same figure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dpi, metadata={"Software": None})


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
