"""What kind an attribute is of, and how its values are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from drgcn.errors import InputError
from drgcn.recommend.clicks.ingesting.settings import IngestSettings
from drgcn.recommend.clicks.ingesting.source_table import SourceTable, quoted
from drgcn.recommend.clicks.ingesting.workshop import Workshop

_NUMBERS: Final = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT"),
    *("UINTEGER", "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL"),
)
_TIMES: Final = ("DATE", "TIMESTAMP")
_TEXTS: Final = ("VARCHAR", "BOOLEAN", "UUID", "ENUM")


@dataclass(frozen=True)
class AttributeColumn:
    """One attribute.

    Attributes:
        name: Its name.
        numeric: Whether it is a number; else it is a category.
        sql: Its value, a FLOAT or a VARCHAR.
        values: The values of a category in ascending order, a pyarrow array; ``None`` of a number.
    """

    name: str
    numeric: bool
    sql: str
    values: Any | None = None

    @classmethod
    def read_all(
        cls, shop: Workshop, table: SourceTable, key: str, settings: IngestSettings
    ) -> Iterator[AttributeColumn]:
        """The attributes of a table, in its order; every column but the ids.

        Numbers, dates (as days since 1970) and, in CSV, columns whose every value reads as a
        number are numeric. Texts and truth values are categories.
        """
        for name, kind in table.columns.items():
            if name == key or name in settings.ignore:
                continue
            if name in settings.category:
                numeric = False
            elif name in settings.numeric:
                numeric = True
            elif table.is_text:
                numeric = not _unreadable(shop, table, name)[0]
            elif kind.startswith((*_NUMBERS, *_TIMES)) and not kind.endswith("]"):
                numeric = True
            elif kind.startswith(_TEXTS) and not kind.endswith("]"):
                numeric = False
            else:
                raise InputError(
                    f"Expected numbers or texts in {name!r} of {table.source}; found {kind}. "
                    "Leave the column out with --ignore, or make columns of it."
                )
            yield cls._number(shop, table, name) if numeric else cls._category(shop, table, name)

    @classmethod
    def _number(cls, shop: Workshop, table: SourceTable, name: str) -> AttributeColumn:
        count, example = _unreadable(shop, table, name)
        if count:
            raise InputError(
                f"Expected numbers in {name!r} of {table.source}; {count:,} rows hold something "
                f"else, such as {example!r}. Make it a category, or name what stands for no value "
                "with --missing."
            )
        value = _number_sql(table, name)
        # FLOAT ends at 3.4e38: what lies beyond would be written as infinite.
        (infinite,) = shop.row(
            f"SELECT count(*) FILTER (abs({value}) > 3.4028234e38 AND NOT isnan({value})) "
            f"FROM {table.name}"
        )
        if infinite:
            raise InputError(
                f"Expected finite numbers in {name!r} of {table.source}; {infinite:,} rows are "
                "infinite or beyond 3.4e38. Leave them empty: a missing value is allowed."
            )
        return cls(name, True, f"CAST({value} AS FLOAT)")

    @classmethod
    def _category(cls, shop: Workshop, table: SourceTable, name: str) -> AttributeColumn:
        import pyarrow as pa

        value = f"CAST({quoted(name)} AS VARCHAR)"
        sql = (
            f"SELECT DISTINCT {value} AS v FROM {table.name} WHERE {value} IS NOT NULL ORDER BY v"
        )
        pieces = [batch["v"].cast(pa.large_string()) for batch in shop.batches(sql)]
        values = pa.chunked_array(pieces, type=pa.large_string()).combine_chunks()
        if len(values) >= 2**31:
            raise InputError(
                f"Expected fewer than 2**31 categories in {name!r} of {table.source}."
            )
        return cls(name, False, value, values)


def _number_sql(table: SourceTable, name: str) -> str:
    column, kind = quoted(name), table.columns[name]
    if kind.startswith(_TIMES):
        return f"(epoch({column}) / 86400)"
    return f"TRY_CAST({column} AS DOUBLE)"


def _unreadable(shop: Workshop, table: SourceTable, name: str) -> tuple[int, str]:
    column = quoted(name)
    count, example = shop.row(
        f"SELECT count(*), any_value(CAST({column} AS VARCHAR)) FROM {table.name} "
        f"WHERE {column} IS NOT NULL AND {_number_sql(table, name)} IS NULL"
    )
    return count, example
