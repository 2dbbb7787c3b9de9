"""Attributes of many nodes into arrays, row by row where each belongs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.format import open_memmap

from drgcn.errors import InputError
from drgcn.recommend.clicks.attribute_table import write_values
from drgcn.recommend.clicks.ingesting.attribute_column import AttributeColumn
from drgcn.recommend.clicks.ingesting.id_map import IdMap
from drgcn.recommend.clicks.ingesting.settings import IngestSettings
from drgcn.recommend.clicks.ingesting.source_table import SourceTable, quoted
from drgcn.recommend.clicks.ingesting.workshop import Workshop

_ROWS_AT_ONCE = 2**18


def write_attributes(
    shop: Workshop,
    table: SourceTable,
    key: str,
    ids: IdMap,
    folder: Path,
    settings: IngestSettings,
) -> tuple[tuple[str, str], ...]:
    """Writes what :meth:`AttributeTable.load` reads.

    Rows come in any order and are written where they belong, so nothing is sorted. Nodes without
    a row have every attribute missing.

    Returns:
        Each attribute and its kind.
    """
    identity = f"CAST({quoted(key)} AS {ids.kind})"
    _refuse_repeated(shop, table, identity, key)
    columns = list(AttributeColumn.read_all(shop, table, key, settings))
    numbers = [column for column in columns if column.numeric]
    categories = [column for column in columns if not column.numeric]
    folder.mkdir()
    numeric = _filled(folder / "numeric.npy", (ids.count, len(numbers)), np.float32, np.nan)
    codes = _filled(folder / "categories.npy", (ids.count, len(categories)), np.int32, -1)
    chosen = [f"{column.sql} AS a{place}" for place, column in enumerate(columns)]
    place_of = {column.name: f"a{place}" for place, column in enumerate(columns)}
    sql = (
        f"SELECT m.code, t.* FROM (SELECT {', '.join([f'{identity} AS id', *chosen])} "
        f"FROM {table.name}) t JOIN {ids.name} m ON t.id = m.id"
    )
    for batch in shop.batches(sql):
        rows = batch["code"].to_numpy()
        for number, column in enumerate(numbers):
            numeric[rows, number] = _floats(batch[place_of[column.name]])
        for number, column in enumerate(categories):
            codes[rows, number] = _codes(batch[place_of[column.name]], column.values)
    _close(numeric)
    _close(codes)
    values: tuple[Any, ...] = tuple(column.values for column in categories)
    facts = {
        "numeric_names": [column.name for column in numbers],
        "category_names": [column.name for column in categories],
        "category_sizes": list(map(len, values)),
    }
    (folder / "table.json").write_text(json.dumps(facts), encoding="utf-8")
    if values:
        write_values(values, folder)
    return tuple((c.name, "numeric" if c.numeric else "category") for c in columns)


def _filled(
    path: Path, shape: tuple[int, int], kind: npt.DTypeLike, value: float
) -> npt.NDArray[Any]:
    if 0 in shape:  # nothing to map
        array = np.empty(shape, dtype=kind)
        np.save(path, array)
        return array
    array = open_memmap(path, mode="w+", dtype=kind, shape=shape)
    for begin in range(0, shape[0], _ROWS_AT_ONCE):
        array[begin : begin + _ROWS_AT_ONCE] = value
    return array


def _close(array: npt.NDArray[Any]) -> None:
    if isinstance(array, np.memmap):
        array.flush()


def _floats(column: Any) -> npt.NDArray[Any]:
    import pyarrow.compute as pc

    return pc.fill_null(column, float("nan")).to_numpy(zero_copy_only=False)


def _codes(column: Any, values: Any) -> npt.NDArray[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.index_in(column.cast(pa.large_string()), value_set=values)
    return pc.fill_null(found, -1).to_numpy(zero_copy_only=False)


def _refuse_repeated(shop: Workshop, table: SourceTable, identity: str, key: str) -> None:
    repeated = shop.rows(
        f"SELECT {identity} AS id, count(*) AS n FROM {table.name} GROUP BY id HAVING n > 1 "
        "ORDER BY id LIMIT 1"
    )
    if repeated:
        identifier, count = repeated[0]
        raise InputError(
            f"Expected one row for each {key!r} in {table.source}; {identifier!r} has {count}. "
            "Keep one of them."
        )
