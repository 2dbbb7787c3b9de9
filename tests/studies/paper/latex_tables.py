"""Reads the tables of a paper's LaTeX source, knowing nothing of the pages."""

import re
from pathlib import Path

NUMBER = re.compile(r"-?[\d,]*\.?\d+ ?(± ?\d*\.?\d+)? ?%?")


def latex_tables(path: Path) -> dict[str, dict[str, list[str]]]:
    """By label: the cells of every row by the row's head; the head of the columns is ``""``."""
    source = re.sub(r"(?<!\\)%.*", "", path.read_text(encoding="utf-8"))
    found = {}
    for body in re.findall(r"\\begin\{table\*\}(.*?)\\end\{table\*\}", source, re.DOTALL):
        label = re.search(r"\\label\{([^}]*)\}", body)[1]
        body = re.sub(r"\\newcommand.*", "", body)
        body = body.split("\\begin{tabular}")[1].split("\\end{tabular}")[0]
        body = body[body.index("\n") :]  # how columns are aligned
        found[label] = _rows(body)
    return found


def _rows(body: str) -> dict[str, list[str]]:
    body = re.sub(r"\\tabincell\s*\{c\}\s*\{([^{}]*)\}", lambda m: _one_line(m[1]), body)
    body = re.sub(r"\\makecell\{[^{}]*\}", "", body)
    body = re.sub(r"\\(top|mid|bottom)rule|\\cmidrule\{[^}]*\}", "", body)
    rows: dict[str, list[str]] = {}
    for line in body.split(r"\\"):
        cells = [_plain(cell) for cell in line.split("&")]
        if not any(cells):
            continue
        first = next((i for i, c in enumerate(cells) if _is_number(c)), None)
        if first is None:
            assert "" not in rows, "a table has one line of heads"
            rows[""] = [cell for cell in cells if cell not in ("", "Category", "Method")]
        else:
            assert cells[first - 1] not in rows, "rows have names of their own"
            rows[cells[first - 1]] = cells[first:]
    return rows


def _one_line(text: str) -> str:
    return " ".join(text.replace(r"\\", " ").split())


def _plain(cell: str) -> str:
    cell = re.sub(r"~?\\cite[pt]?\s*\{[^}]*\}", "", cell)
    cell = re.sub(r"\\multirow\{\d\}\*?\{\*?\}?.*", "", cell)
    cell = re.sub(r"\$\s*\\pm\s*\$", "±", cell)
    cell = re.sub(r"\\textbf\{([^{}]*)\}", r"\1", cell).replace(r"\%", "%")
    return " ".join(cell.replace("~", " ").split())


def _is_number(cell: str) -> bool:
    return bool(NUMBER.fullmatch(cell))
