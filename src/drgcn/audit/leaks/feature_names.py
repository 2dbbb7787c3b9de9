"""Names of feature columns from a table."""

from __future__ import annotations

import csv
from os import PathLike
from pathlib import Path

from drgcn.errors import InputError


def read_feature_names(path: str | PathLike[str]) -> tuple[str | None, ...]:
    """The word of every column, ``None`` where it is not known for sure.

    The file is a CSV table with the columns ``dim`` (the feature column, from 0, each one once)
    and ``word`` (or ``top_surface_word``). Where it has a column ``confident``, words of rows
    with a 0 there were only guessed, and are left out.

    Raises:
        InputError: If the file is something else.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"the feature names in {path} cannot be read: {error}") from None
    head = list(rows[0]) if rows else []
    key = next((key for key in ("word", "top_surface_word") if key in head), None)
    if key is None or "dim" not in head:
        raise InputError(
            f"{path}: expected a CSV table with the columns dim and word; found "
            f"{', '.join(map(str, head)) or 'no rows'}"
        )
    names: dict[int, str | None] = {}
    for number, row in enumerate(rows, 2):
        dim = row["dim"]
        if not isinstance(dim, str) or not dim.isdecimal() or int(dim) in names:
            raise InputError(
                f"{path}, line {number}: expected dim to be a column that was not named yet; "
                f"found {dim!r}"
            )
        sure = row.get("confident", "1") != "0"
        names[int(dim)] = row[key] if sure and row[key] else None
    if sorted(names) != list(range(len(names))):
        raise InputError(
            f"{path}: expected the feature columns 0 to {len(names) - 1}, each once; found "
            "others: give a row without a word to columns that have none"
        )
    return tuple(names[dim] for dim in range(len(names)))
