"""An audit as Markdown, or as one self-contained page with pictures."""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jinja2 import Environment
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from drgcn._io import write_whole
from drgcn.audit.finding import Finding
from drgcn.audit.graph_view import PARTS
from drgcn.audit.report import SEVERITIES, AuditReport

# Colour-blind safe (Okabe and Ito).
_COLOURS = {"train": "#0072B2", "val": "#E69F00", "test": "#009E73"}
_OWN, _OTHER = "#D55E00", "#999999"
_LONGEST_NAME = 44


def report_figures(report: AuditReport) -> dict[str, list[str]]:
    """SVG pictures of the findings that can be drawn, by the name of the finding they go with."""
    pictures: dict[str, list[str]] = {}
    for finding in report.findings:
        draw = _DRAWN.get(finding.name)
        if draw is None or not finding.rows:
            continue
        place = _ELSEWHERE.get(finding.name, finding.name)
        pictures.setdefault(place, []).append(to_svg(draw(finding)))
    return pictures


def to_svg(figure: Figure) -> str:
    """The figure as text that a page can contain, the same for the same figure."""
    buffer = io.StringIO()
    # Without a salt, names inside the picture are drawn at random; metadata holds the date.
    with mpl.rc_context({"svg.hashsalt": "drgcn", "svg.fonttype": "none"}):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _class_balance(finding: Finding) -> Figure:
    figure, axes = _bars(len(finding.rows), 3)
    places = np.arange(len(finding.rows))
    for number, part in enumerate(PARTS):
        shares = _column(finding, f"{part} %")
        axes.barh(places + (number - 1) * 0.27, shares, 0.25, color=_COLOURS[part], label=part)
    _name_rows(axes, _column(finding, "class"))
    axes.set_xlabel("% of the nodes of the part")
    axes.legend(frameon=False, fontsize=8)
    return figure


def _degrees(finding: Finding) -> Figure:
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.bar(_column(finding, "degree"), _column(finding, "nodes"), color=_COLOURS["train"])
    axes.set_xlabel("neighbours")
    axes.set_ylabel("nodes")
    axes.tick_params(axis="x", labelrotation=45 if len(finding.rows) > 8 else 0)
    return figure


def _similarity(finding: Finding) -> Figure:
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.subplots()
    starts = np.array(_column(finding, "similarity from"))
    below = np.zeros(len(starts))
    for colour, kind in zip(_COLOURS.values(), finding.columns[1:], strict=False):
        pairs = np.array(_column(finding, kind))
        axes.bar(starts, pairs, 0.045, below, align="edge", color=colour, label=kind)
        below += pairs
    axes.set_xlabel("similarity of a pair")
    axes.set_ylabel("pairs")
    axes.legend(frameon=False, fontsize=8)
    return figure


def _label_words(finding: Finding) -> Figure:
    figure, axes = _bars(len(finding.rows), 2)
    places = np.arange(len(finding.rows))
    nodes = np.array(_column(finding, "nodes"), dtype=float)
    others = np.maximum(finding.numbers["labelled"] - nodes, 1)
    own = 100 * np.array(_column(finding, "all words")) / np.maximum(nodes, 1)
    elsewhere = 100 * np.array(_column(finding, "all words elsewhere")) / others
    axes.barh(places - 0.2, own, 0.36, color=_OWN, label="nodes of the class")
    axes.barh(places + 0.2, elsewhere, 0.36, color=_OTHER, label="nodes of other classes")
    _name_rows(axes, _column(finding, "class"))
    axes.set_xlabel("% that carry all words of the class's name")
    axes.legend(frameon=False, fontsize=8)
    return figure


def _telling(finding: Finding) -> Figure:
    figure, axes = _bars(len(finding.rows), 1)
    told = _column(finding, "label word")
    colours = [_OWN if word else _COLOURS["train"] for word in told]
    shares = [100 * share for share in _column(finding, "share")]
    axes.barh(np.arange(len(shares)), shares, 0.7, color=colours)
    names = [
        f"{word or f'column {column}'}: {label}"
        for column, word, label in zip(
            *(_column(finding, name) for name in ("column", "word", "class")), strict=True
        )
    ]
    _name_rows(axes, names)
    named = "; orange: a word of a class name" if any(told) else ""
    axes.set_xlabel(f"% of a class's entropy that one feature settles{named}")
    return figure


def _predictors(finding: Finding) -> Figure:
    figure, axes = _bars(len(finding.rows), 1)
    accuracy = [100 * value for value in _column(finding, "accuracy")]
    bars = axes.barh(np.arange(len(accuracy)), accuracy, 0.6, color=_COLOURS["train"])
    axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
    _name_rows(axes, _column(finding, "predictor"))
    axes.set_xlim(0, 108)
    axes.set_xlabel("test accuracy %")
    return figure


def _bars(rows: int, bars: int) -> tuple[Figure, Axes]:
    height = max(1.6, 0.8 + rows * (0.16 + 0.09 * bars))
    figure = Figure(figsize=(7, height), layout="constrained")
    return figure, figure.subplots()


def _name_rows(axes: Axes, names: list[Any]) -> None:
    # A dollar would start a formula, and a line end another line.
    words = [" ".join(str(name).split()).replace("$", r"\$") for name in names]
    short = [
        word if len(word) <= _LONGEST_NAME else f"{word[:_LONGEST_NAME]}..." for word in words
    ]
    axes.set_yticks(range(len(short)), short, fontsize=8)
    axes.invert_yaxis()


def _column(finding: Finding, name: str) -> list[Any]:
    place = finding.columns.index(name)
    return [row[place] for row in finding.rows]


# How alike pairs are is of interest beside the groups they make.
_ELSEWHERE = {"similarity of the pairs": "duplicate groups"}
_DRAWN: dict[str, Callable[[Finding], Figure]] = {
    "class balance": _class_balance,
    "degrees": _degrees,
    "similarity of the pairs": _similarity,
    "label words in texts": _label_words,
    "label words among features": _label_words,
    "features that give the class away": _telling,
    "simple predictors": _predictors,
}


_MARKDOWN_ROWS_SHOWN = 20


def markdown_report(report: AuditReport) -> str:
    """The facts, then the findings with their tables, worst first."""
    lines = [f"# Audit of {report.dataset}", ""]
    lines += [f"- {name}: {shown(value)}" for name, value in report.facts.items()]
    for severity in SEVERITIES:
        found = report.of(severity)
        lines += ["", f"## {severity.capitalize()} ({len(found)})"] if found else []
        for finding in found:
            lines += ["", f"**{finding.name}**: {finding.summary}", "", finding.definition]
            lines += ["", *_table(finding)] if finding.rows else []
    return "\n".join(lines) + "\n"


def shown(value: Any) -> str:
    """A value as a reader wants it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    return "-" if value is None else str(value)


def _table(finding: Finding) -> list[str]:
    rows = [finding.columns, ["---"] * len(finding.columns), *finding.rows[:_MARKDOWN_ROWS_SHOWN]]
    lines = [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    more = len(finding.rows) - _MARKDOWN_ROWS_SHOWN
    return lines + ([f"\n{more:,} more rows."] if more > 0 else [])


def _cell(value: Any) -> str:
    # A bar would open another cell, a line end another row.
    return " ".join(shown(value).replace("|", "\\|").split())


_PAGE_ROWS_SHOWN = 50


def html_report(report: AuditReport) -> str:
    """The page: facts, findings with pictures and tables, worst first; nothing is fetched."""
    template = resources.files("drgcn.audit").joinpath("report.html.jinja").read_text("utf-8")
    environment = Environment(autoescape=True)
    environment.filters["shown"] = shown
    return environment.from_string(template).render(
        report=report,
        severities=SEVERITIES,
        pictures=report_figures(report),
        rows_shown=_PAGE_ROWS_SHOWN,
    )


def write_page(report: AuditReport, path: Path) -> Path:
    """Writes the page; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, html_report(report))
    return path
