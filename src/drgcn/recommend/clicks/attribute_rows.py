"""Attributes of somebody new, in the codes of a table that is there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.attribute_table import AttributeTable


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
