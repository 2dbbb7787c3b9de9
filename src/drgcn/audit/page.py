"""An audit as Markdown, or as one self-contained page with pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from drgcn.audit.finding import Finding
from drgcn.audit.graph_view import PARTS
from drgcn.audit.report import SEVERITIES, AuditReport
from drgcn.reporting.charts import Bars, column_bars, row_bars
from drgcn.reporting.page import render_html, write_html
from drgcn.reporting.tables import Table, without_tags

_TEMPLATE = "report.html.jinja"
_MARKDOWN_ROWS_SHOWN = 20
_PAGE_ROWS_SHOWN = 50
_PART_KINDS = {"train": "one", "val": "five", "test": "three"}
_OWN, _OTHER = "two", "six"


def html_report(report: AuditReport) -> str:
    """Return the page: facts, findings with pictures and tables, worst first."""
    return render_html(__package__, _TEMPLATE, **_page_values(report))


def write_page(report: AuditReport, path: Path) -> Path:
    """Write the page; return its path."""
    return write_html(path, __package__, _TEMPLATE, **_page_values(report))


def _page_values(report: AuditReport) -> dict[str, Any]:
    return {
        "title": f"Audit of {report.dataset}",
        "report": report,
        "severities": SEVERITIES,
        "pictures": report_figures(report),
        "rows_shown": _PAGE_ROWS_SHOWN,
        "shown": shown,
        "numbers": _number_table,
        "table": lambda finding: _table(finding, _PAGE_ROWS_SHOWN),
    }


def markdown_report(report: AuditReport) -> str:
    """Return the facts, then the findings with their tables, worst first."""
    lines = [f"# Audit of {report.dataset}", ""]
    lines += [f"- {name}: {shown(value)}" for name, value in report.facts.items()]
    for severity in SEVERITIES:
        found = report.of(severity)
        lines += ["", f"## {severity.capitalize()} ({len(found)})"] if found else []
        for finding in found:
            lines += ["", f"**{finding.name}**: {finding.summary}", "", finding.definition]
            if finding.rows:
                lines += ["", _table(finding, _MARKDOWN_ROWS_SHOWN).markdown()]
                more = len(finding.rows) - _MARKDOWN_ROWS_SHOWN
                lines += ["", f"{more:,} more rows."] if more > 0 else []
    return without_tags("\n".join(lines)) + "\n"


def shown(value: Any) -> str:
    """Format a value for a reader."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    return "-" if value is None else str(value)


def _table(finding: Finding, rows: int) -> Table:
    # Single spaces: a line end inside a cell would end a row in Markdown.
    cells = [[" ".join(shown(value).split()) for value in row] for row in finding.rows[:rows]]
    return Table(finding.columns, cells, title=finding.name)


def _number_table(finding: Finding) -> Table:
    cells = [(name, shown(value)) for name, value in finding.numbers.items()]
    return Table((), cells, title=finding.name)


def report_figures(report: AuditReport) -> dict[str, list[str]]:
    """Return SVG pictures of the findings that can be drawn, by the finding they stand beside."""
    pictures: dict[str, list[str]] = {}
    for finding in report.findings:
        draw = _DRAWN.get(finding.name)
        if draw is None or not finding.rows:
            continue
        place = _ELSEWHERE.get(finding.name, finding.name)
        pictures.setdefault(place, []).append(draw(finding))
    return pictures


def _class_balance(finding: Finding) -> str:
    series = [Bars(_column(finding, f"{part} %"), _PART_KINDS[part], part) for part in PARTS]
    return row_bars(_column(finding, "class"), series, "% of the nodes of the part")


def _degrees(finding: Finding) -> str:
    names = [str(degree) for degree in _column(finding, "degree")]
    return column_bars(names, [Bars(_column(finding, "nodes"), "one")], "nodes", "neighbours")


def _similarity(finding: Finding) -> str:
    starts = [f"{start:g}" for start in _column(finding, "similarity from")]
    series = [
        Bars(_column(finding, name), kind, name)
        for name, kind in zip(finding.columns[1:], _PART_KINDS.values(), strict=False)
    ]
    return column_bars(starts, series, "pairs", "similarity of a pair, from")


def _label_words(finding: Finding) -> str:
    nodes = _column(finding, "nodes")
    others = [max(finding.numbers["labelled"] - count, 1) for count in nodes]
    own = _percent(_column(finding, "all words"), [max(count, 1) for count in nodes])
    elsewhere = _percent(_column(finding, "all words elsewhere"), others)
    return row_bars(
        _column(finding, "class"),
        [
            Bars(own, _OWN, "nodes of the class"),
            Bars(elsewhere, _OTHER, "nodes of other classes"),
        ],
        "% that carry all words of the class's name",
    )


def _telling(finding: Finding) -> str:
    told = _column(finding, "label word")
    columns = zip(*(_column(finding, name) for name in ("column", "word", "class")), strict=True)
    names = [f"{word or f'column {column}'}: {label}" for column, word, label in columns]
    shares = [100 * share for share in _column(finding, "share")]
    named = "; orange: a word of a class name" if any(told) else ""
    bars = Bars(shares, [_OWN if word else "one" for word in told])
    return row_bars(names, [bars], f"% of a class's entropy that one feature settles{named}")


def _predictors(finding: Finding) -> str:
    accuracy = [100 * value for value in _column(finding, "accuracy")]
    names = _column(finding, "predictor")
    return row_bars(names, [Bars(accuracy, "one")], "test accuracy %", labelled=True)


def _lookup(finding: Finding) -> str:
    """Scores of what stands in no table of results, orange, beside those that do."""
    own = ("look-up", "the majority")
    rows = [(name, 100 * score) for name, score in finding.rows if score is not None]
    kinds = [_OWN if str(name).startswith(own) else "one" for name, _ in rows]
    bars = Bars([score for _, score in rows], kinds)
    return row_bars(
        [name for name, _ in rows], [bars], f"test {finding.columns[1]} %", labelled=True
    )


def _column(finding: Finding, name: str) -> list[Any]:
    place = finding.columns.index(name)
    return [row[place] for row in finding.rows]


def _percent(counts: list[Any], wholes: list[Any]) -> list[float]:
    return [100 * count / whole for count, whole in zip(counts, wholes, strict=True)]


# The similarity of pairs is shown beside the groups that they make.
_ELSEWHERE = {"similarity of the pairs": "duplicate groups"}
_DRAWN: dict[str, Callable[[Finding], str]] = {
    "class balance": _class_balance,
    "degrees": _degrees,
    "similarity of the pairs": _similarity,
    "label words in texts": _label_words,
    "label words among features": _label_words,
    "features that give the class away": _telling,
    "simple predictors": _predictors,
    "the same thing in training": _lookup,
}
