"""A report of run records as one self-contained page, or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from drgcn._io import write_whole
from drgcn.reporting.page import write_html
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
    """Write the page of some records; return its path.

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
    """Write the self-contained page of a report; return its path."""
    comparisons = sum(len(section.blocks) for section in found.sections)
    return write_html(
        path,
        __package__,
        "report.html.jinja",
        title=title,
        caveat=caveat,
        report=found,
        unfolded=comparisons <= _OPEN,
    )


def write_markdown(found: Contents, path: Path, *, title: str) -> Path:
    """Write a report as Markdown, without its pictures; return its path."""
    parts = [f"# {title}", "\n".join(f"- {sentence}" for sentence in found.findings)]
    for section in found.sections:
        if section.tables or not (section.charts or section.blocks):
            parts += [f"## {section.title}", *section.words]
            parts += [table.markdown_section() for table in section.tables]
    return write_whole(path, "\n\n".join(parts) + "\n")
