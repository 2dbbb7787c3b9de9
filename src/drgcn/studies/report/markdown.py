"""Tables in Markdown."""

from __future__ import annotations

from pathlib import Path

from drgcn.studies.report.contents import Contents
from drgcn.studies.report.text_table import TextTable


def write_markdown(found: Contents, path: Path, *, title: str) -> Path:
    """Writes what a report says, without its pictures; returns the path."""
    parts = [f"# {title}", "\n".join(f"- {sentence}" for sentence in found.findings)]
    for section in found.sections:
        if section.tables or not (section.charts or section.blocks):
            parts += [f"## {section.title}", *section.words]
            parts += [to_markdown(table) for table in section.tables]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def to_markdown(table: TextTable, *, level: int = 3) -> str:
    """Heading, table and notes.

    Args:
        table: What to set.
        level: Of its heading.
    """
    words = ["---"] * table.left + ["---:"] * (len(table.heads) - table.left)
    lines = [table.heads, tuple(words), *table.rows]
    parts = [f"{'#' * level} {table.title}", "\n".join(map(_line, lines))]
    return "\n\n".join([*parts, *table.notes])


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
