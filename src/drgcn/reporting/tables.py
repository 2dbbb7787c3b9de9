"""Tables of text, rendered as Markdown, HTML, LaTeX or in a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape as escape_html
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from drgcn._io import write_whole
from drgcn.errors import printable

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Padding = Literal["all", "cells", "none"]


@dataclass(frozen=True)
class Table:
    """Rows of cells under heads.

    Attributes:
        heads: Heads of the columns; empty for a table of labels and values without a head.
        rows: One cell of text per column each.
        name: Anchor on a page, and name of the LaTeX file.
        title: Heading.
        notes: Paragraphs below the rows.
        left: Number of columns, from the first, that hold words and are set to the left; the
            others hold numbers and are set to the right. (default: all are words)
        kinds: CSS class of each row, which colours its last column on a page; empty for none.
        pictures: SVG of each row, shown on a page before the last column; empty for none.
        folded: Shown on a page by its title alone until a reader opens it.

    Example:
        >>> print(Table(("model", "%"), [("gcn", "81.5")], left=1).markdown())
        | model | % |
        | --- | ---: |
        | gcn | 81.5 |
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    name: str = ""
    title: str = ""
    notes: Sequence[str] = ()
    left: int | None = None
    kinds: Sequence[str] = ()
    pictures: Sequence[str] = ()
    folded: bool = False

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != self.width:
                raise ValueError(f"{self.name}: {len(row)} cells under {self.width} heads")
        for extra in (self.kinds, self.pictures):
            if extra and len(extra) != len(self.rows):
                raise ValueError(f"{self.name}: {len(extra)} extras for {len(self.rows)} rows")

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.heads) or len(self.rows[0] if self.rows else ())

    def is_word(self, place: int) -> bool:
        """Return whether a column holds words, not numbers."""
        return self.left is None or place < self.left

    def transposed(self) -> Table:
        """Return the table with rows as columns, for narrow terminals."""
        heads, *rows = zip(self.heads, *self.rows, strict=True)
        return Table(heads, rows, left=1)

    def markdown(self, padding: Padding = "all") -> str:
        """Render heads and rows as Markdown, without title and notes.

        Args:
            padding: Lines with spaces beside bars: all, all but the rule below the heads, or
                none. Markdown reads them alike; a page keeps the one that it is written with.
        """
        rule = ["---" if self.is_word(place) else "---:" for place in range(self.width)]
        lines = [_markdown_line(self.heads or [""] * self.width, spaced=padding != "none")]
        lines.append(_markdown_line(rule, spaced=padding == "all"))
        lines += [_markdown_line(row, spaced=padding != "none") for row in self.rows]
        return "\n".join(lines)

    def markdown_section(self, level: int = 3) -> str:
        """Render title, table and notes as Markdown, with a heading of some level."""
        return "\n\n".join([f"{'#' * level} {self.title}", self.markdown(), *self.notes])

    def html(self) -> str:
        """Render heads and rows for a page that extends ``base.html.jinja``; wide ones scroll."""
        lines = [
            f'<div class="box" tabindex="0" role="region" aria-label="{escape_html(self.title)}">'
            "<table>"
        ]
        if self.heads:
            cells = [
                f"<th{_class('word' if self._to_the_left(place) else '')}"
                f' scope="col">{escape_html(head)}</th>'
                for place, head in enumerate(self.heads)
            ]
            if self.pictures:
                cells.insert(-1, '<th scope="col">drawn</th>')
            lines.append(f"<thead><tr>{''.join(cells)}</tr></thead>")
        lines.append("<tbody>")
        for number, row in enumerate(self.rows):
            cells = [
                f"<td{_class(self._cell_class(place, cell))}>{escape_html(cell)}</td>"
                for place, cell in enumerate(row)
            ]
            if self.is_word(0):
                look = _class(self._cell_class(0, row[0]))
                cells[0] = f'<th{look} scope="row">{escape_html(row[0])}</th>'
            if self.pictures:
                cells.insert(-1, f"<td>{self.pictures[number]}</td>")
            kind = _class(self.kinds[number] if self.kinds else "")
            lines.append(f"<tr{kind}>{''.join(cells)}</tr>")
        return "\n".join([*lines, "</tbody></table></div>"])

    def latex(self) -> str:
        r"""Render for ``\input``; needs the packages booktabs, longtable and array."""
        lines = [
            f"% {self.title}".encode("ascii", "replace").decode(),
            rf"\begin{{longtable}}{{{''.join(map(self._latex_column, range(self.width)))}}}",
            rf"\caption{{{escape_latex(self.title)}}}\label{{tab:{_label(self.name)}}}\\",
            r"\toprule",
            _latex_line(self.heads or [""] * self.width),
            r"\midrule",
            r"\endhead",
            r"\bottomrule",
            r"\endfoot",
            *map(_latex_line, self.rows),
            r"\end{longtable}",
        ]
        notes = [rf"\noindent {escape_latex(note)}\par" for note in self.notes]
        return "\n".join([*lines, *notes]) + "\n"

    def rich(self, *, wrap: bool = True, markup: bool = False) -> RichTable:
        """Build the table for a terminal.

        Args:
            wrap: Long cells may take several lines. (default: :obj:`True`)
            markup: Cells are in rich's markup; else they are shown as they are.
        """
        from rich.markup import escape
        from rich.table import Table as RichTable

        def shown(cell: str) -> str:
            return cell if markup else escape(printable(cell))

        table = RichTable(title=shown(self.title) or None, show_header=bool(self.heads))
        for place in range(self.width):
            head = shown(self.heads[place]) if self.heads else ""
            side: Literal["left", "right"] = "left" if self.is_word(place) else "right"
            # What is too long goes on in the next line: nothing is cut off.
            table.add_column(head, justify=side, no_wrap=not wrap, overflow="fold")
        for row in self.rows:
            table.add_row(*map(shown, row))
        return table

    def _to_the_left(self, place: int) -> bool:
        return self.is_word(place) or bool(self.kinds and place == self.width - 1)

    def _cell_class(self, place: int, cell: str) -> str:
        """Class of a cell on a page: long ones break into lines."""
        longest = 16 if self.kinds else 40
        if self.is_word(place) and len(cell) > 26:
            return "long"
        if place == self.width - 1 and len(cell) > longest:
            return "long"
        return "word" if self._to_the_left(place) else ""

    def _latex_column(self, place: int) -> str:
        if any(len(row[place]) > _LATEX_LONG for row in self.rows):
            return r">{\raggedright\arraybackslash}p{55mm}"
        return "l" if self.is_word(place) else "r"


def without_tags(markdown: str) -> str:
    """Return Markdown in which nothing is read as HTML: names in data can hold any text."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", markdown)


def _markdown_line(cells: Sequence[str], *, spaced: bool) -> str:
    # A bar would open another cell, a line end another row.
    marked = [cell.replace("|", "\\|").replace("\n", " ") for cell in cells]
    return f"| {' | '.join(marked)} |" if spaced else f"|{'|'.join(marked)}|"


def _class(name: str) -> str:
    return f' class="{escape_html(name)}"' if name else ""


_LATEX_ESCAPES: Final = {char: f"\\{char}" for char in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "`": r"\textasciigrave{}",
    "×": r"$\times$",
    "–": "--",
    "—": "---",
    "é": r"\'e",
}
_MINUS: Final = re.compile(r"(?<![\w-])-(?=\d)")  # not a hyphen
# Columns with longer cells are set in lines, so that a table stays on its page.
_LATEX_LONG: Final = 40
_LATEX_DOCUMENT: Final = r"""\documentclass[10pt]{article}
\usepackage[a4paper,landscape,margin=15mm]{geometry}
\usepackage{booktabs,longtable,array}
\setlength{\tabcolsep}{4pt}
\begin{document}
\scriptsize
%s
\end{document}
"""


def escape_latex(text: str) -> str:
    """Return text as LaTeX source that shows it."""
    marked = _MINUS.sub("\0", text)
    escaped = "".join(_LATEX_ESCAPES.get(char, char) for char in marked)
    return escaped.replace("\0", "$-$").encode("ascii", "replace").decode()


def write_latex(tables: Sequence[Table], folder: Path) -> Path:
    """Write a file for each table, and ``all.tex`` that can be compiled; return the latter."""
    inputs = []
    for table in tables:
        name = f"{_label(table.name)}.tex"
        write_whole(folder / name, table.latex())
        inputs.append(rf"\input{{{name}}}")
    return write_whole(folder / "all.tex", _LATEX_DOCUMENT % "\n\\clearpage\n".join(inputs))


def _latex_line(cells: Sequence[str]) -> str:
    # A bracket after \\ would be read as its argument: braces keep a first cell apart from it.
    first, *others = (escape_latex(cell) for cell in cells)
    return " & ".join(["{}" + first if first.startswith("[") else first, *others]) + r" \\"


def _label(name: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", name.lower())
