"""Reads a table from its page, a file of TOML that can be laid beside the paper.

A page holds the printed numbers as a grid, and under the head of every row and column what is
known of it: dataset, split and scaling, model, gate, norm and other settings of an experiment.
A cell is what ``[all]``, its column and its row say together, the later before the earlier.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any, Final

from drgcn.errors import InputError
from drgcn.studies.paper.cell_settings import CellSettings
from drgcn.studies.paper.grid import Grid
from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.paper.printed_number import PrintedNumber
from drgcn.studies.paper.table_cell import Quantity, TableCell

_PAGE: Final[dict[str, type]] = {
    **{"number": int, "title": str, "label": str, "unit": str, "about": str, "seeds": int},
    **{"numbers": str, "rows": dict, "columns": dict, "all": dict, "notes": list},
}
_SHARE: Final = (0, 100)  # percent
_BOUNDS: Final = {"test": _SHARE, "recall": _SHARE, "rate": _SHARE, "gain": (-100, 100)}
_PRINTS_NONE: Final = "the paper prints no number here"


def read_page(path: Path) -> PaperTable:
    """The table of a page, named after its file.

    Raises:
        InputError: If the page cannot be read, or says something that cannot be.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"Expected a page of a table; {path} cannot be read ({error}): give another path"
        ) from None
    try:
        return _table(path.stem, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is no TOML: {error}. Repair it.") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _table(name: str, page: dict[str, Any]) -> PaperTable:
    _expect_page(page)
    rows, columns = page["rows"], page["columns"]
    grid = Grid.read(page["numbers"], rows, columns) if "numbers" in page else None
    notes = _notes(page.get("notes", []), rows, columns)
    cells = []
    for row, by_row in rows.items():
        for column, by_column in columns.items():
            try:
                settings = CellSettings.read({**page.get("all", {}), **by_column, **by_row})
                cells.append(_cell(row, column, settings, grid, notes.get((row, column))))
            except InputError as error:
                raise InputError(f"row {row!r}, column {column!r}: {error}") from None
    return PaperTable(
        name=name,
        number=page.get("number"),
        title=page["title"],
        label=page.get("label"),
        unit=page["unit"],
        seeds=page.get("seeds", 20),
        rows=tuple(rows),
        columns=tuple(columns),
        cells=tuple(cells),
        about=page.get("about"),
    )


def _cell(
    row: str, column: str, settings: CellSettings, grid: Grid | None, note: str | None
) -> TableCell:
    printed = None if grid is None else grid.at(row, column)
    absent = grid is not None and printed is None
    quantity: Quantity = settings.get("quantity") or "test"
    if printed is not None:
        _expect_possible(printed, quantity)
    reason = _PRINTS_NONE if absent else settings.get("reason")
    return TableCell(
        row=row,
        column=column,
        printed=printed,
        job=settings.recipe() if reason is None else None,
        reason=reason or settings.get("needs"),
        note=note,
        quantity=quantity,
        dataset=settings.get("dataset"),
        split=settings.get("split"),
        label=settings.label,
        stand_in=None if absent else settings.get("stand_in"),
    )


def _expect_possible(printed: PrintedNumber, quantity: str) -> None:
    """Refuses a share of more than all or less than nothing: a slip of whoever typed the page."""
    low, high = _BOUNDS.get(quantity, (-math.inf, math.inf))
    if not low <= printed.mean <= high:
        raise InputError(
            f"Expected a number from {low} to {high} ({quantity}, in percent); found "
            f"{printed.text}: correct it, or say with quantity what else it is"
        )


def _notes(
    entries: list[Any], rows: dict[str, Any], columns: dict[str, Any]
) -> dict[tuple[str, str], str]:
    """Notes by cell; one that names no row is for all rows, and likewise with columns."""
    found: dict[tuple[str, str], str] = {}
    for entry in entries:
        known = isinstance(entry, dict) and {"words"} <= entry.keys() <= {"words", "row", "column"}
        if not known or not all(isinstance(value, str) for value in entry.values()):
            raise InputError(
                f"Expected a note of words with a row, a column or both; found {entry}: correct it"
            )
        places = []
        for key, heads in (("row", rows), ("column", columns)):
            if key in entry and entry[key] not in heads:
                raise InputError(
                    f"Expected a note at a {key} of the table; found {entry[key]!r}: use one of "
                    f"{', '.join(heads)}"
                )
            places.append([entry[key]] if key in entry else list(heads))
        for row in places[0]:
            for column in places[1]:
                before = found.get((row, column))
                found[row, column] = f"{before} {entry['words']}" if before else entry["words"]
    return found


def _expect_page(page: dict[str, Any]) -> None:
    for name in ("title", "unit", "rows", "columns"):
        if name not in page:
            raise InputError(f"Expected {name} on the page; found none: add it")
    for name, value in page.items():
        kind = _PAGE.get(name)
        if kind is None:
            raise InputError(f"Expected {', '.join(_PAGE)} on a page; found {name}: take it out")
        if type(value) is not kind:
            raise InputError(
                f"Expected {name} to be of type {kind.__name__}; found {value!r}: correct it"
            )
    for axis in ("rows", "columns"):
        if not page[axis] or not all(isinstance(entry, dict) for entry in page[axis].values()):
            raise InputError(
                f"Expected {axis} with a table of settings each; found {page[axis]}: write "
                f"[{axis}.NAME]"
            )
    if page.get("seeds", 1) < 1:
        raise InputError(f"Expected at least one seed; found {page['seeds']}: use 20")
