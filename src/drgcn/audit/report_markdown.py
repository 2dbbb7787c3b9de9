"""An audit as a page of Markdown."""

from __future__ import annotations

from typing import Any

from drgcn.audit.finding import Finding
from drgcn.audit.report import SEVERITIES, AuditReport

_ROWS_SHOWN = 20


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
    rows = [finding.columns, ["---"] * len(finding.columns), *finding.rows[:_ROWS_SHOWN]]
    lines = [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    more = len(finding.rows) - _ROWS_SHOWN
    return lines + ([f"\n{more:,} more rows."] if more > 0 else [])


def _cell(value: Any) -> str:
    # A bar would open another cell, a line end another row.
    return " ".join(shown(value).replace("|", "\\|").split())
