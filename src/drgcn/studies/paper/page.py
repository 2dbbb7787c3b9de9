"""Reads a table from its page, a file of TOML that can be laid beside the paper.

A page holds the printed numbers as a grid, and under the head of every row and column what is
known of it: dataset, split and scaling, model, gate, norm and other settings of an experiment.
A cell is what its column and its row say together.
"""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from drgcn.data.catalog import describe, names
from drgcn.errors import InputError
from drgcn.studies.experiment import Experiment
from drgcn.studies.paper.cell_recipe import CellRecipe
from drgcn.studies.paper.grid import Grid
from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.paper.table_cell import QUANTITIES, TableCell
from drgcn.studies.recipes import recipe
from drgcn.studies.scaling import usual_scaling

_PAGE: Final = {
    **{"number": int, "title": str, "label": str, "unit": str, "about": str, "seeds": int},
    **{"numbers": str, "rows": dict, "columns": dict, "all": dict, "notes": list},
}
_SETTINGS: Final = {field.name for field in fields(Experiment)}
_ABOUT: Final = {"normalize", "reason", "needs", "stand_in", "quantity"}
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
                settings = {**page.get("all", {}), **by_column, **by_row}
                cells.append(_cell(row, column, settings, grid, notes))
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
    row: str,
    column: str,
    settings: dict[str, Any],
    grid: Grid | None,
    notes: dict[tuple[str, str], str],
) -> TableCell:
    about = {key: settings.pop(key, None) for key in sorted(_ABOUT)}
    if unknown := sorted(settings.keys() - _SETTINGS):
        raise InputError(
            f"Expected settings out of {', '.join(sorted(_SETTINGS | _ABOUT))}; found "
            f"{', '.join(unknown)}: correct the page"
        )
    quantity: Any = about["quantity"] or "test"
    if quantity not in QUANTITIES:
        raise InputError(
            f"Expected a quantity out of {', '.join(QUANTITIES)}; found {quantity!r}: correct it"
        )
    printed = None if grid is None else grid.at(row, column)
    reason = about["reason"]
    if grid is not None and printed is None:
        reason = _PRINTS_NONE
    job = None if reason is not None else _recipe(settings, about["normalize"])
    return TableCell(
        row=row,
        column=column,
        printed=printed,
        job=job,
        reason=reason or about["needs"],
        note=notes.get((row, column)),
        quantity=quantity,
        dataset=settings.get("dataset"),
        split=settings.get("split"),
        label=_label(settings),
        stand_in=about["stand_in"],
    )


def _recipe(settings: dict[str, Any], normalize: str | None) -> CellRecipe:
    for name in ("dataset", "split", "model"):
        if name not in settings:
            raise InputError(
                f"Expected a {name}, or a reason why nothing is run; found neither: add one"
            )
    dataset, split = settings["dataset"], settings["split"]
    if dataset not in names():
        describe(dataset)  # says what there is
    if split not in describe(dataset).splits:
        raise InputError(
            f"Expected a split of {dataset}; found {split!r}: choose one of "
            f"{', '.join(describe(dataset).splits)}"
        )
    experiment = recipe(**settings)
    scaled = normalize or usual_scaling(dataset, experiment.model)
    if scaled not in ("row", "standard", "none"):
        raise InputError(
            f"Expected normalize to be row, standard or none; found {scaled!r}: correct it"
        )
    return CellRecipe(experiment, scaled)


def _label(settings: dict[str, Any]) -> str | None:
    """The name of a row in our tables, of whatever model."""
    if "model" not in settings:
        return None
    known = ("model", "reweight", "norm", "pre_activation")
    return Experiment("", "", **{key: settings[key] for key in known if key in settings}).label


def _notes(
    entries: list[dict[str, Any]], rows: dict[str, Any], columns: dict[str, Any]
) -> dict[tuple[str, str], str]:
    """Notes by cell; one that names no row is for all rows, and likewise with columns."""
    found: dict[tuple[str, str], str] = {}
    for entry in entries:
        if not isinstance(entry, dict) or not {"words"} <= entry.keys() <= {
            "words",
            "row",
            "column",
        }:
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
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(
                f"Expected {name} to be of type {kind.__name__}; found {value!r}: correct it"
            )
    for axis in ("rows", "columns"):
        if not page[axis] or not all(isinstance(entry, dict) for entry in page[axis].values()):
            raise InputError(f"Expected {axis} with a table of settings each: write [{axis}.NAME]")
    if page.get("seeds", 1) < 1:
        raise InputError(f"Expected at least one seed; found {page['seeds']}: use 20")
