"""A DuckDB that keeps to a memory limit and cleans up after itself."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drgcn.errors import InputError, how_to_install
from drgcn.recommend.clicks.ingesting.memory_limit import default_memory

_BATCH = 2**20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Workshop:
    """One connection: statements in, numbers and batches of rows out.

    Args:
        connection: A connection of DuckDB.
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def do(self, sql: str) -> None:
        """Runs a statement."""
        self.connection.execute(sql)

    def row(self, sql: str) -> tuple[Any, ...]:
        """The only row of an answer."""
        # Fetched to its end: DuckDB starts nothing else before that.
        (row,) = self.connection.execute(sql).fetchall()
        return row

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a short answer."""
        return self.connection.execute(sql).fetchall()

    def batches(self, sql: str) -> Iterator[Any]:
        """A long answer as record batches of pyarrow, one at a time."""
        relation = self.connection.sql(sql)
        # Named otherwise before DuckDB 2.
        read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        yield from read(_BATCH)


@contextmanager
def open_workshop(folder: Path, memory: str | None, threads: int | None) -> Iterator[Workshop]:
    """A workshop whose tables and spilled memory lie in a new folder that is removed at the end.

    Whatever DuckDB has to say comes as an :class:`InputError` of one sentence, but for a full
    disk, which is the system's.
    """
    try:
        import duckdb
    except ImportError:
        raise InputError(
            f"Expected DuckDB to read tables of clicks; found none. {how_to_install('recommend')}"
        ) from None
    memory = memory or default_memory()
    folder.mkdir()
    config: dict[str, Any] = {
        "memory_limit": memory,
        "temp_directory": str(folder / "spill"),
        "preserve_insertion_order": False,  # rows are sorted where their order matters
        "autoinstall_known_extensions": False,  # never reach for the network
    }
    if threads is not None:
        config["threads"] = threads
    try:
        with duckdb.connect(str(folder / "tables.duckdb"), config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET enable_progress_bar = false")
            yield Workshop(connection)
    except duckdb.OutOfMemoryException as error:
        raise InputError(
            f"Expected the work to fit {memory} of memory and the free disk beside the result; "
            f"DuckDB says: {_first_line(error)} Give more with --memory, or use fewer --threads."
        ) from None
    except duckdb.Error as error:
        for number in _FULL:
            if os.strerror(number) in str(error):
                raise OSError(number, os.strerror(number)) from None
        raise InputError(f"The tables cannot be read: {_first_line(error)}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
