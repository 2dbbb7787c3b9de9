"""A report as one self-contained page, as Markdown or as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from jinja2 import Environment

from drgcn._io import write_whole
from drgcn.studies.paper.page import paper_tables
from drgcn.studies.records import RunRecord
from drgcn.studies.report.contents import Contents, contents
from drgcn.studies.report.text_table import TextTable

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
    write_whole(path, page)
    return path


def write_markdown(found: Contents, path: Path, *, title: str) -> Path:
    """Writes what a report says, without its pictures; returns the path."""
    parts = [f"# {title}", "\n".join(f"- {sentence}" for sentence in found.findings)]
    for section in found.sections:
        if section.tables or not (section.charts or section.blocks):
            parts += [f"## {section.title}", *section.words]
            parts += [to_markdown(table) for table in section.tables]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "\n\n".join(parts) + "\n")
    return path


def to_markdown(table: TextTable, *, level: int = 3) -> str:
    """Heading, table and notes.

    Args:
        table: What to set.
        level: Of its heading.
    """
    words = ["---"] * table.left + ["---:"] * (len(table.heads) - table.left)
    lines = [table.heads, tuple(words), *table.rows]
    parts = [f"{'#' * level} {table.title}", "\n".join(map(_markdown_line, lines))]
    return "\n\n".join([*parts, *table.notes])


def _markdown_line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


_ESCAPES: Final = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "<": "$<$", ">": "$>$", "|": "$|$", "`": r"\textasciigrave{}"},
    **{"×": r"$\times$", "–": "--", "—": "---", "é": r"\'e"},
}
_NUMBER: Final = re.compile(r"(?<![\w-])-(?=\d)")  # a minus, not a hyphen
_WHOLE: Final = r"""\documentclass[10pt]{article}
\usepackage[a4paper,landscape,margin=15mm]{geometry}
\usepackage{booktabs,longtable,array}
\setlength{\tabcolsep}{4pt}
\begin{document}
\scriptsize
%s
\end{document}
"""
# Words longer than that are set in lines, so that a table stays on its page.
_LONG: Final = 40


def escape(text: str) -> str:
    """Text as LaTeX shows it."""
    marked = _NUMBER.sub("\0", text)
    escaped = "".join(_ESCAPES.get(char, char) for char in marked)
    return escaped.replace("\0", "$-$").encode("ascii", "replace").decode()


def to_latex(table: TextTable) -> str:
    """A table for ``\\input``: it needs the packages booktabs, longtable and array."""
    columns = "".join(map(_column, range(len(table.heads)), [table] * len(table.heads)))
    lines = [
        f"% {table.title}".encode("ascii", "replace").decode(),
        rf"\begin{{longtable}}{{{columns}}}",
        rf"\caption{{{escape(table.title)}}}\label{{tab:{_label(table.name)}}}\\",
        r"\toprule",
        _latex_line(table.heads),
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
        *map(_latex_line, table.rows),
        r"\end{longtable}",
    ]
    notes = [rf"\noindent {escape(note)}\par" for note in table.notes]
    return "\n".join([*lines, *notes]) + "\n"


def write_latex(tables: Sequence[TextTable], folder: Path) -> Path:
    """Writes one file for each table, and ``all.tex`` that can be compiled; returns the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for table in tables:
        name = f"{_label(table.name)}.tex"
        write_whole(folder / name, to_latex(table))
        names.append(rf"\input{{{name}}}")
    whole = folder / "all.tex"
    write_whole(whole, _WHOLE % "\n\\clearpage\n".join(names))
    return whole


def _column(place: int, table: TextTable) -> str:
    if any(len(row[place]) > _LONG for row in table.rows):
        return r">{\raggedright\arraybackslash}p{55mm}"
    return "l" if place < table.left else "r"


def _latex_line(cells: Sequence[str]) -> str:
    # A bracket after \\ would be read as its argument: braces keep a first cell apart from it.
    first, *others = (escape(cell) for cell in cells)
    return " & ".join(["{}" + first if first.startswith("[") else first, *others]) + r" \\"


def _label(name: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", name.lower())
