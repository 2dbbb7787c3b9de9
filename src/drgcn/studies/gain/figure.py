"""The gain of Dr against everything that might have predicted it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from drgcn.studies.gain.cell import Cell
from drgcn.studies.gain.study import Finding, GainStudy

# Colour-blind safe (Okabe and Ito).
_SCALINGS = {
    "none": ("raw", "#D55E00"),
    "row": ("row-normalised", "#0072B2"),
    "standard": ("standardised", "#009E73"),
}
_LOG = ("k_std", "spread")
# Columns that hardly vary drive K of 1/std to any depth: what lies below is drawn at the edge.
_FLOOR = 1e-10
_OUTLIERS = 1.5


def gain_figure(study: GainStudy) -> Figure:
    """One panel per predictor, the gain with its 95 % interval over it; synthetic data hollow."""
    figure = Figure(figsize=(11, 6.6), layout="constrained")
    panels = figure.subplots(2, 3, sharey=True)
    for axes, found in zip_longest(panels.flat, study.findings):
        if found is None:
            axes.set_visible(False)
        else:
            _draw(axes, study.cells, found)
    for axes in panels[:, 0]:
        axes.set_ylabel("Dr - plain, points of accuracy")
    figure.legend(handles=_legend(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def _draw(axes: Axes, cells: Sequence[Cell], found: Finding) -> None:
    predictor, c = found.predictor, found.correlation
    axes.axhline(0, color="#999999", lw=0.8, zorder=0)
    for cell in cells:
        value = predictor.value(cell)
        if value is None:
            continue
        x = _shown(value, found)
        colour = _SCALINGS[cell.normalize][1]
        over = cell.over_plain
        axes.errorbar(
            x,
            over.mean,
            yerr=[[over.mean - over.low], [over.high - over.mean]],
            fmt="<" if x > value else "o",
            ms=5,
            color=colour,
            mfc="white" if cell.synthetic else colour,
            elinewidth=0.9,
            alpha=0.85,
        )
    if predictor.name in _LOG:
        axes.set_xscale("log")
    axes.margins(x=0.08)
    _label_outliers(axes, cells, found)
    axes.set_xlabel(predictor.words)
    axes.set_title(
        f"rank correlation {c.spearman:+.2f} [{c.low:+.2f}, {c.high:+.2f}]", fontsize=10
    )
    axes.grid(alpha=0.25)


def _label_outliers(axes: Axes, cells: Sequence[Cell], found: Finding) -> None:
    """Names the farthest cell of a dataset and scaling, on the side where there is more room."""
    farthest: dict[tuple[str, str], Cell] = {}
    for cell in sorted(cells, key=lambda each: abs(each.over_plain.mean)):
        if abs(cell.over_plain.mean) >= _OUTLIERS:
            farthest[cell.dataset, cell.normalize] = cell
    for cell in farthest.values():
        value = found.predictor.value(cell)
        if value is None:
            continue
        point = (_shown(value, found), cell.over_plain.mean)
        across = axes.transAxes.inverted().transform(axes.transData.transform(point))[0]
        left = across > 0.5
        label = axes.annotate(
            cell.dataset if cell.dataset != "twitch" else f"twitch {cell.split}",
            point,
            xytext=(-6 if left else 6, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=8,
            path_effects=[withStroke(linewidth=2.5, foreground="white")],
        )
        label.set_in_layout(False)  # else panels shrink to make room for it


def _shown(value: float, found: Finding) -> float:
    return max(value, _FLOOR) if found.predictor.name in _LOG else value


def _legend() -> list[Line2D]:
    marks = [("o", colour, colour, words) for words, colour in _SCALINGS.values()]
    marks.append(("o", "#555555", "white", "synthetic, not counted"))
    marks.append(("<", "#555555", "#555555", "further left"))
    return [
        Line2D([], [], marker=marker, ls="", color=colour, mfc=inside, label=words)
        for marker, colour, inside, words in marks
    ]
