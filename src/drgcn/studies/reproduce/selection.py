"""Which cells of which tables are meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from drgcn.errors import InputError
from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.paper.table_cell import TableCell

KEYS: Final = ("dataset", "model", "row")

Only = Mapping[str, Sequence[str]]
"""What a cell's dataset, model or row has to be: any of the words of each key that is given."""

Place = tuple[PaperTable, TableCell]


def read_only(pairs: Iterable[str]) -> dict[str, list[str]]:
    """Filters out of ``key=value``; a key that is given twice allows both values."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if key not in KEYS or not equals or not value:
            raise InputError(
                f"Expected --only with {', '.join(f'{known}=...' for known in KEYS)}; found "
                f"{pair!r}."
            )
        found.setdefault(key, []).append(value)
    return found


def selected(tables: Iterable[PaperTable], only: Only | None = None) -> list[Place]:
    """The cells that are meant, with their tables, in the order of the tables.

    Upper and lower case do not matter.

    Raises:
        InputError: If nothing is left; the message names what there is.
    """
    places = [(table, cell) for table in tables for cell in table.cells]
    for key, values in (only or {}).items():
        known = list(dict.fromkeys(word for _, cell in places if (word := _word(cell, key))))
        unknown = [v for v in values if v.lower() not in {word.lower() for word in known}]
        if unknown:
            raise InputError(
                f"Expected --only {key}= one of {', '.join(known) or 'nothing'}; found "
                f"{', '.join(unknown)}."
            )
    left = places
    for key, values in (only or {}).items():
        words = {value.lower() for value in values}
        before, left = left, [p for p in left if (_word(p[1], key) or "").lower() in words]
        if not left:
            there = dict.fromkeys(word for _, cell in before if (word := _word(cell, key)))
            raise InputError(
                f"Expected --only to leave a cell; with the other filters {key} is one of "
                f"{', '.join(there) or 'nothing'}, and not {', '.join(values)}. Leave one out."
            )
    return left


def _word(cell: TableCell, key: str) -> str | None:
    if key == "row":
        return cell.row
    if key == "dataset":
        return cell.dataset if cell.job is None else cell.job.experiment.dataset
    if cell.job is not None:
        return cell.job.experiment.model
    return None if cell.label is None else cell.label.partition(" + ")[0]
