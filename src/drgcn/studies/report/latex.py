"""Tables in LaTeX, with the rules of booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drgcn.studies.report.text_table import TextTable

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
        _line(table.heads),
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
        *map(_line, table.rows),
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
        (folder / name).write_text(to_latex(table), encoding="utf-8")
        names.append(rf"\input{{{name}}}")
    whole = folder / "all.tex"
    whole.write_text(_WHOLE % "\n\\clearpage\n".join(names), encoding="utf-8")
    return whole


def _column(place: int, table: TextTable) -> str:
    if any(len(row[place]) > _LONG for row in table.rows):
        return r">{\raggedright\arraybackslash}p{55mm}"
    return "l" if place < table.left else "r"


def _line(cells: Sequence[str]) -> str:
    # A bracket after \\ would be read as its argument: braces keep a first cell apart from it.
    first, *others = (escape(cell) for cell in cells)
    return " & ".join(["{}" + first if first.startswith("[") else first, *others]) + r" \\"


def _label(name: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", name.lower())
