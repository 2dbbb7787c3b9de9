"""A report of run records as one self-contained page, or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from jinja2 import Environment

from drgcn.studies.paper.page import paper_tables
from drgcn.studies.records import RunRecord
from drgcn.studies.report.contents import Contents, contents

# Few comparisons are shown at once; of many a reader opens those of interest.
_OPEN = 4


def write_report(
    records: Sequence[RunRecord],
    path: Path,
    *,
    title: str,
    caveat: str = "",
    folder: Path | None = None,
) -> Path:
    """Writes the page of some records; returns its path.

    Args:
        records: Run records.
        path: Where to write.
        title: Its heading.
        caveat: What a reader has to know, below every verdict.
        folder: Where the records lie, to look for suites and for jobs that failed.
    """
    whole = contents(records, list(paper_tables().values()), folder)
    return write_page(whole, path, title=title, caveat=caveat)


def write_page(found: Contents, path: Path, *, title: str, caveat: str = "") -> Path:
    """Writes a page with what a report says: no script, no other file, no network."""
    path.parent.mkdir(parents=True, exist_ok=True)
    template = (resources.files(__package__) / "report.html.jinja").read_text("utf-8")
    comparisons = sum(len(section.blocks) for section in found.sections)
    page = (
        Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        .from_string(template)
        .render(title=title, caveat=caveat, report=found, unfolded=comparisons <= _OPEN)
    )
    path.write_text(page, encoding="utf-8")
    return path


def write_markdown(found: Contents, path: Path, *, title: str) -> Path:
    """Writes what a report says, without its pictures; returns the path."""
    parts = [f"# {title}", "\n".join(f"- {sentence}" for sentence in found.findings)]
    for section in found.sections:
        if section.tables or not (section.charts or section.blocks):
            parts += [f"## {section.title}", *section.words]
            parts += [table.markdown_section() for table in section.tables]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path
