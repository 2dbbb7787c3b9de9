"""Small published tables of text, and attributes out of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.attribute_table import AttributeTable


def read_rows(path: Path, separator: str, columns: int) -> list[list[str]]:
    """The fields of each line; every line must have as many."""
    rows = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            fields = line.rstrip("\r\n").split(separator)
            if len(fields) != columns:
                raise InputError(
                    f"Expected {columns} fields in line {number} of {path}; found {len(fields)}. "
                    "The file is cut off or not the published one."
                )
            rows.append(fields)
    if not rows:
        raise InputError(f"Expected rows in {path}; it is empty.")
    return rows


def attribute_table(
    numbers: Mapping[str, Sequence[str]],
    categories: Mapping[str, Sequence[str]],
    several: Mapping[str, Sequence[Iterable[str]]],
) -> AttributeTable:
    """A table out of columns of texts; an empty text is a missing value.

    Args:
        numbers: Columns of numbers.
        categories: Columns of categories; codes follow the values in ascending order.
        several: Columns with any number of values a row, each value a column of zeros and ones;
            a row without values has them missing.
    """
    import pyarrow as pa

    columns = {
        name: [float(text) if text else np.nan for text in texts]
        for name, texts in numbers.items()
    }
    for name, sets in several.items():
        known = [set(values) for values in sets]
        for value in sorted(set().union(*known)):
            columns[f"{name}: {value}"] = [
                float(value in values) if values else np.nan for values in known
            ]
    values = {name: sorted(set(texts) - {""}) for name, texts in categories.items()}
    codes = [
        [-1 if text == "" else values[name].index(text) for text in texts]
        for name, texts in categories.items()
    ]
    rows = len(next(iter([*numbers.values(), *categories.values(), *several.values()])))
    return AttributeTable(
        torch.tensor(list(columns.values()), dtype=torch.float32).view(-1, rows).T.contiguous(),
        torch.tensor(codes, dtype=torch.int32).view(-1, rows).T.contiguous(),
        tuple(columns),
        tuple(values),
        tuple(map(len, values.values())),
        tuple(pa.array(names, pa.large_string()) for names in values.values()),
    )
