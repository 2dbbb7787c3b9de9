"""Lists of items as a table with a row for each user and place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.retrieval.top_items import TopItems
from drgcn.recommend.serving.id_lookup import IdLookup


def list_table(users: IdLookup, items: IdLookup, rows: Tensor, top: TopItems) -> Any:
    """Columns ``user``, ``rank`` (from 1), ``item`` and ``score``, with the ids of the data."""
    import pyarrow as pa

    found = top.items.numpy()
    real = found >= 0
    owner = np.broadcast_to(rows.numpy()[:, None], found.shape)[real]
    rank = np.broadcast_to(np.arange(1, found.shape[1] + 1, dtype=np.int32), found.shape)[real]
    columns = [users.ids(owner), pa.array(rank), items.ids(found[real])]
    return pa.table(
        [*columns, pa.array(top.scores.numpy()[real])], names=["user", "rank", "item", "score"]
    )


class ListWriter:
    """Takes tables of lists one after another."""

    def __init__(self, path: Path, final: Path) -> None:
        self.path, self.is_csv = path, final.suffix.lower() == ".csv"
        self.writer: Any = None
        self.rows = 0

    def add(self, table: Any) -> None:
        """Writes a table."""
        if self.writer is None:
            from pyarrow import csv, parquet

            kind = csv.CSVWriter if self.is_csv else parquet.ParquetWriter
            self.writer = kind(self.path, table.schema)
        self.writer.write_table(table)
        self.rows += table.num_rows

    def close(self) -> None:
        """Ends the file."""
        if self.writer is not None:
            self.writer.close()


@contextmanager
def list_writer(path: Path) -> Iterator[ListWriter]:
    """A writer to a .parquet or .csv file that is there as a whole or not at all."""
    if path.suffix.lower() not in (".parquet", ".pq", ".csv"):
        raise InputError(f"Expected --out to end in .parquet or .csv; found {path.name}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial-{os.getpid()}")
    writer = ListWriter(partial, path)
    try:
        yield writer
        writer.close()
        os.replace(partial, path)
    except BaseException:
        writer.close()
        partial.unlink(missing_ok=True)
        raise
