"""Ids of any kind as numbers 0, 1, 2, ..."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drgcn.errors import InputError
from drgcn.recommend.clicks.ingesting.source_table import SourceTable, quoted
from drgcn.recommend.clicks.ingesting.workshop import Workshop

_WHOLE: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_BROKEN: Final = ("FLOAT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True)
class IdMap:
    """A table ``(id, code)`` in DuckDB.

    Numbers follow the ids in ascending order: as whole numbers if all of them are such, else as
    text, byte by byte. So they do not depend on the order of rows or on the form of the file.

    Attributes:
        name: Name of the table.
        count: Number of ids.
        whole: Whether the ids are whole numbers.
        kind: The SQL type that ids are compared in.
    """

    name: str
    count: int
    whole: bool
    kind: str

    @classmethod
    def number(cls, shop: Workshop, name: str, sources: list[tuple[SourceTable, str]]) -> IdMap:
        """Numbers all ids that occur in some columns.

        Args:
            shop: Where to work.
            name: Name for the table.
            sources: Tables, and which of their columns holds the ids.
        """
        kinds = [_checked_kind(shop, table, column) for table, column in sources]
        kind = "BIGINT" if set(kinds) == {"BIGINT"} else "VARCHAR"
        parts = [
            f"SELECT CAST({quoted(column)} AS {kind}) AS id FROM {table.name}"
            for table, column in sources
        ]
        every = " UNION ALL ".join(parts)
        shop.do(f"CREATE TEMP TABLE {name}_ids AS SELECT DISTINCT id FROM ({every})")
        whole = kind == "BIGINT"
        order = "id"
        if not whole:
            as_number = "TRY_CAST(id AS BIGINT)"
            (others,) = shop.row(
                f"SELECT count(*) FROM {name}_ids "
                f"WHERE {as_number} IS NULL OR CAST({as_number} AS VARCHAR) <> id"
            )
            whole, order = others == 0, "id" if others else as_number
        (count,) = shop.row(f"SELECT count(*) FROM {name}_ids")
        code = "INTEGER" if count < 2**31 else "BIGINT"
        shop.do(
            f"CREATE TABLE {name} AS SELECT id, "
            f"CAST(row_number() OVER (ORDER BY {order}) - 1 AS {code}) AS code FROM {name}_ids"
        )
        shop.do(f"DROP TABLE {name}_ids")
        return cls(name, count, whole, kind)

    def write(self, shop: Workshop, path: Path) -> bool:
        """Writes the ids in the order of their numbers, unless they are these numbers already.

        Returns:
            Whether there was anything to write.
        """
        import pyarrow as pa
        from pyarrow import parquet

        kind, arrow = ("BIGINT", pa.int64()) if self.whole else ("VARCHAR", pa.large_string())
        as_kind = f"CAST(id AS {kind})"
        if self.whole:
            (same,) = shop.row(f"SELECT bool_and({as_kind} = code) FROM {self.name}")
            if same:
                return False
        with parquet.ParquetWriter(path, pa.schema([("id", arrow)])) as writer:
            for batch in shop.batches(f"SELECT {as_kind} AS id FROM {self.name} ORDER BY code"):
                writer.write_table(pa.table({"id": batch["id"].cast(arrow)}))
        return True


def _checked_kind(shop: Workshop, table: SourceTable, column: str) -> str:
    kind = table.columns[column]
    if kind.startswith(_BROKEN):
        raise InputError(
            f"Expected ids that are whole numbers or text in {column!r} of {table.source}; found "
            f"{kind}. Cast the column (ids with gaps are often stored so by mistake)."
        )
    rows, without = shop.row(
        f"SELECT count(*), count(*) - count({quoted(column)}) FROM {table.name}"
    )
    if not rows:
        raise InputError(f"Expected at least one row in {table.source}; it is empty.")
    if without:
        raise InputError(
            f"Expected an id in every row of {column!r} in {table.source}; {without:,} of "
            f"{rows:,} rows have none."
        )
    return "BIGINT" if kind in _WHOLE else "VARCHAR"
