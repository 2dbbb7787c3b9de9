"""Attributes of users and items: numbers and categories, and rows for new nodes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn._io import plain_file
from drgcn.errors import InputError
from drgcn.sampling.graph import load_tensor


@dataclass(frozen=True, eq=False)
class AttributeTable:
    """One row a node: columns of numbers and columns of categories, some of them missing.

    Attributes:
        numeric: Numbers ``[rows, numbers]``, float32, as they were given; NaN where missing.
        categories: Codes ``[rows, categories]``, int32, from 0 on; -1 where missing.
        numeric_names: Names of the columns of numbers.
        category_names: Names of the columns of categories.
        category_sizes: How many codes each column of categories may hold.
        category_values: For each column of categories the value behind each code, a pyarrow
            array of strings; empty if codes are all there is.
    """

    numeric: Tensor
    categories: Tensor
    numeric_names: tuple[str, ...]
    category_names: tuple[str, ...]
    category_sizes: tuple[int, ...]
    category_values: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def load(cls, folder: Path | str, mmap: bool = True) -> AttributeTable:
        """Load what :meth:`save` wrote: mapped and read as needed, or read into memory at once.

        Raises:
            InputError: If a file is missing or damaged, or a code stands for no value.
        """
        folder = Path(folder)
        try:
            facts = json.loads(plain_file(folder / "table.json").read_text(encoding="utf-8"))
            numeric, categories = (
                load_tensor(folder / f"{name}.npy", mmap) for name in ("numeric", "categories")
            )
            table = cls(
                numeric,
                categories,
                tuple(map(str, facts["numeric_names"])),
                tuple(map(str, facts["category_names"])),
                tuple(map(int, facts["category_sizes"])),
                _read_values(folder, len(facts["category_names"])),
            )
        except InputError:
            raise
        except (
            OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError
        ) as error:  # fmt: skip
            raise InputError(
                f"Expected a folder that AttributeTable.save wrote; found {folder} ({error})."
            ) from None
        _check_codes(table, folder)
        return table

    def save(self, folder: Path | str) -> None:
        """Write ``numeric.npy``, ``categories.npy``, ``table.json`` and ``values.parquet``."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "numeric.npy", self.numeric.cpu().numpy())
        np.save(folder / "categories.npy", self.categories.cpu().numpy())
        keys = ("numeric_names", "category_names", "category_sizes")
        facts = {key: list(getattr(self, key)) for key in keys}
        (folder / "table.json").write_text(json.dumps(facts), encoding="utf-8")
        if self.category_values:
            write_values(self.category_values, folder)

    def __len__(self) -> int:
        return self.numeric.size(0)

    def rows(self, index: Tensor) -> AttributeTable:
        """Some of the rows, in the order asked for."""
        index = index.to(self.numeric.device)
        return replace(self, numeric=self.numeric[index], categories=self.categories[index])

    def to(self, device: torch.device | str) -> AttributeTable:
        """The same table on another device."""
        numeric, categories = self.numeric.to(device), self.categories.to(device)
        return replace(self, numeric=numeric, categories=categories)


def _check(table: AttributeTable) -> None:
    sides = (
        ("numeric", table.numeric, torch.float32, table.numeric_names),
        ("categories", table.categories, torch.int32, table.category_names),
    )
    for name, values, kind, names in sides:
        if values.dtype != kind or values.dim() != 2 or values.size(1) != len(names):
            raise InputError(
                f"Expected {name} as {kind} of shape [rows, {len(names)}], a column for each "
                f"name; found {values.dtype} of shape {list(values.shape)}."
            )
    if table.numeric.size(0) != table.categories.size(0):
        raise InputError(
            f"Expected as many rows of numbers as of categories; found {table.numeric.size(0)} "
            f"and {table.categories.size(0)}."
        )
    if len(table.category_sizes) != len(table.category_names):
        raise InputError(
            f"Expected one size for each column of categories; found {table.category_sizes} for "
            f"{table.category_names}."
        )
    if table.category_values and (tuple(map(len, table.category_values)) != table.category_sizes):
        raise InputError(
            f"Expected as many values as codes in each column of categories, "
            f"{table.category_sizes}; found {tuple(map(len, table.category_values))}."
        )


def _check_codes(table: AttributeTable, folder: Path) -> None:
    """Refuse codes that an embedding has no row for."""
    if not table.categories.numel():
        return
    least, most = table.categories.aminmax(dim=0)
    columns = zip(table.category_names, table.category_sizes, least, most, strict=True)
    for name, size, low, high in columns:
        if int(low) < -1 or int(high) >= size:
            raise InputError(
                f"Expected codes from -1 to {size - 1} for {name!r} in {folder}; found {int(low)} "
                f"to {int(high)}. The folder is damaged: make it again."
            )


def several_names(columns: Sequence[str]) -> dict[str, list[str]]:
    """Columns of attributes that have several values, by the attribute's name.

    ``ingest --several genres`` calls them ``genres: war``, ``genres: drama`` and so on.
    """
    found: dict[str, list[str]] = {}
    for column in columns:
        name, colon, _ = column.partition(": ")
        if colon:
            found.setdefault(name, []).append(column)
    return found


def read_columns(path: Path, names: Sequence[str]) -> list[Any]:
    """Columns of a parquet file, each as one array whose every text is UTF-8.

    Raises:
        InputError: If the file is missing or damaged, has no such column, or gaps in one.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(plain_file(path), columns=list(names))
        table.validate(full=True)
        columns = [table[name].combine_chunks() for name in names]
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(f"Expected a whole table in {path}; {reason}. Make it again.") from None
    if empty := sum(column.null_count for column in columns):
        raise InputError(f"Expected a value in every row of {path}; {empty:,} have none.")
    return columns


def write_values(values: tuple[Any, ...], folder: Path) -> None:
    """Write the values behind the codes of each column of categories."""
    import pyarrow as pa
    from pyarrow import parquet

    column = np.repeat(np.arange(len(values), dtype=np.int32), [len(value) for value in values])
    texts = pa.chunked_array(
        [value.cast(pa.large_string()) for value in values], type=pa.large_string()
    )
    parquet.write_table(pa.table({"column": column, "value": texts}), folder / "values.parquet")


def _read_values(folder: Path, columns: int) -> tuple[Any, ...]:
    import pyarrow as pa

    path = folder / "values.parquet"
    if not path.exists():
        return ()
    column, texts = read_columns(path, ("column", "value"))
    if not pa.types.is_integer(column.type) or not pa.types.is_large_string(texts.type):
        raise InputError(f"Expected numbers of columns and texts in {path}; found others.")
    ends = np.searchsorted(column.to_numpy(), np.arange(columns + 1))
    return tuple(texts.slice(begin, end - begin) for begin, end in pairwise(ends))


def attribute_rows(table: AttributeTable, rows: Sequence[Mapping[str, Any]]) -> AttributeTable:
    """Rows as they would stand in a table, for nodes that are not in it.

    An attribute that a row does not name, or names as ``None``, is missing; so is a value of a
    category that the table has never seen.

    Args:
        table: The table whose names and codes count. Its values must be known.
        rows: For each new node its attributes by name.

    Raises:
        InputError: If a name is unknown, or a value is no number where one is needed.
    """
    if table.category_names and not table.category_values:
        raise InputError(
            "Expected a table that knows the values behind its codes; found codes alone."
        )
    names = (*table.numeric_names, *table.category_names)
    for row in rows:
        if unknown := [name for name in row if name not in names]:
            raise InputError(
                f"Expected attributes among {', '.join(names)}; found {', '.join(unknown)}."
            )
    numbers = [[_number(row, name) for name in table.numeric_names] for row in rows]
    codes = [
        [
            _code(row.get(name), values)
            for name, values in zip(table.category_names, table.category_values, strict=True)
        ]
        for row in rows
    ]
    count = len(rows)
    return replace(
        table,
        numeric=torch.tensor(numbers, dtype=torch.float32).view(count, len(table.numeric_names)),
        categories=torch.tensor(codes, dtype=torch.int32).view(count, len(table.category_names)),
    )


def _number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    if value is None:
        return math.nan
    if not isinstance(value, int | float) or abs(value) > 3.4028234e38:
        raise InputError(f"Expected a finite number for {name!r}; found {value!r}.")
    return float(value)


def _code(value: Any, values: Any) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc

    if value is None:
        return -1
    # Truth values are written as DuckDB writes them.
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return int(pc.index(values, pa.scalar(text, values.type)).as_py())
