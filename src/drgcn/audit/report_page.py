"""An audit as one self-contained page."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from jinja2 import Environment

from drgcn.audit.report import SEVERITIES, AuditReport
from drgcn.audit.report_figures import report_figures
from drgcn.audit.report_markdown import shown

_ROWS_SHOWN = 50


def html_report(report: AuditReport) -> str:
    """The page: facts, findings with pictures and tables, worst first; nothing is fetched."""
    template = resources.files("drgcn.audit").joinpath("report.html.jinja").read_text("utf-8")
    environment = Environment(autoescape=True)
    environment.filters["shown"] = shown
    return environment.from_string(template).render(
        report=report,
        severities=SEVERITIES,
        pictures=report_figures(report),
        rows_shown=_ROWS_SHOWN,
    )


def write_page(report: AuditReport, path: Path) -> Path:
    """Writes the page; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html_report(report), encoding="utf-8")
    return path
