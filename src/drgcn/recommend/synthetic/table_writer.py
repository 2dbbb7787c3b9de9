"""Clicks as the tables that a company would hand over, for trying out what reads such tables."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.attribute_table import AttributeTable
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.clicks.whole_folder import whole_folder
from drgcn.recommend.synthetic.chunks import chunk_bounds
from drgcn.recommend.synthetic.counter_hash import below, counters, hash64, stream_key

# The columns of the rows from a first to before a last.
Columns = Callable[[int, int], dict[str, Any]]

_ROWS = 2**20
_DAY = 86_400
_DAY_ZERO = 20_454 * _DAY  # an arbitrary midnight, in seconds since 1970


def write_tables(data: ClickData, folder: str | PathLike[str]) -> Path:
    """Writes ``clicks.parquet``, ``users.parquet`` and ``items.parquet`` into a new folder.

    Clicks have the columns user, item and time, in seconds since 1970, at a random second of their
    day. Tables of attributes have the column user or item, and then one for each attribute;
    categories are texts. Missing values are null.
    """
    days = data.graph.days
    if days is None or data.users is None or data.items is None:
        raise InputError(
            "Expected clicks with days and attributes of both sides; some are missing."
        )
    with whole_folder(folder) as partial:
        _write(partial / "clicks.parquet", data.graph.num_clicks, _click_columns(data.graph, days))
        for side, table in (("user", data.users), ("item", data.items)):
            _write(partial / f"{side}s.parquet", len(table), _attribute_columns(table, side))
    return Path(folder)


def _click_columns(graph: ClickGraph, days: Tensor) -> Columns:
    rowptr = graph.by_user.rowptr.cpu()
    key = stream_key(0)

    def columns(begin: int, end: int) -> dict[str, Any]:
        click = counters(begin, end, torch.device("cpu"))
        second = below(hash64(key, click), _DAY)
        return {
            "user": (torch.bucketize(click, rowptr, right=True) - 1).numpy(),
            "item": graph.by_user.col[begin:end].cpu().numpy(),
            "time": (_DAY_ZERO + days[begin:end].cpu().long() * _DAY + second).numpy(),
        }

    return columns


def _attribute_columns(table: AttributeTable, side: str) -> Columns:
    import pyarrow as pa

    def columns(begin: int, end: int) -> dict[str, Any]:
        numeric = table.numeric[begin:end].cpu().numpy()
        codes = table.categories[begin:end].cpu().numpy()
        found: dict[str, Any] = {side: np.arange(begin, end, dtype=np.int64)}
        for j, name in enumerate(table.numeric_names):
            found[name] = pa.array(numeric[:, j], from_pandas=True)  # NaN becomes null
        for j, name in enumerate(table.category_names):
            found[name] = pa.array(codes[:, j], mask=codes[:, j] < 0).cast(pa.string())
        return found

    return columns


def _write(path: Path, rows: int, columns: Columns) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    first = pa.table(columns(0, 0))
    with parquet.ParquetWriter(path, first.schema) as writer:
        for begin, end in pairwise(chunk_bounds(rows, _ROWS)):
            writer.write_table(pa.table(columns(begin, end)))
