"""Columns of raw tables: ids as numbers, days out of times, attributes into arrays."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.lib.format import open_memmap

from drgcn.errors import InputError
from drgcn.recommend.clicks.attributes import AttributeTable, write_values
from drgcn.recommend.clicks.ingest_sql import (
    DuckDBSession,
    IngestSettings,
    SourceTable,
    literal,
    number_sql,
    quoted,
)

_WHOLE: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_BROKEN: Final = ("FLOAT", "DOUBLE", "DECIMAL")
_TIMES: Final = ("DATE", "TIMESTAMP")
# Length of a day in each unit, and the size below which a number is taken for that unit.
_UNITS: Final = {
    "day": (1, 1e5),
    "second": (86_400, 1e11),
    "millisecond": (86_400 * 10**3, 1e14),
    "microsecond": (86_400 * 10**6, 1e17),
    "nanosecond": (86_400 * 10**9, float("inf")),
}
_EPOCH: Final = date(1970, 1, 1)
# Of a date such as 20240531, a text or a number.
_COMPACT_SECONDS: Final = (
    r"CASE WHEN regexp_full_match(CAST({0} AS VARCHAR), '(19|20)\d{{6}}(\.0)?') "
    r"THEN epoch(try_strptime(left(CAST({0} AS VARCHAR), 8), '%Y%m%d')) END"
)
_NUMBERS: Final = (*_WHOLE, "HUGEINT", "UBIGINT", "UHUGEINT", *_BROKEN)
_TEXTS: Final = ("VARCHAR", "BOOLEAN", "UUID", "ENUM")
_IDS: Final = (*_WHOLE, "HUGEINT", "UBIGINT", "UHUGEINT", *_TEXTS)
_ROWS_AT_ONCE = 2**18
_MOST_VALUES = 1000  # of an attribute with several, each a column


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
    def number(
        cls,
        session: DuckDBSession,
        name: str,
        sources: list[tuple[SourceTable, str]],
        known: Any | None = None,
    ) -> IdMap:
        """Numbers all ids that occur in some columns.

        Args:
            session: Where to work.
            name: Name for the table.
            sources: Tables, and which of their columns holds the ids.
            known: Ids that have their numbers already, a pyarrow array in the order of these.
                Others come after them.
        """
        import pyarrow as pa

        kinds = [check_ids(session, table, column) for table, column in sources]
        first = 0 if known is None else len(known)
        whole_before = known is None or pa.types.is_integer(known.type)
        kinds += [] if known is None else ["BIGINT" if whole_before else "VARCHAR"]
        kind = "BIGINT" if set(kinds) == {"BIGINT"} else "VARCHAR"
        parts = [
            f"SELECT CAST({quoted(column)} AS {kind}) AS id FROM {table.name}"
            for table, column in sources
        ]
        every = " UNION ALL ".join(parts)
        session.execute(f"CREATE TEMP TABLE {name}_ids AS SELECT DISTINCT id FROM ({every})")
        if known is not None:
            session.connection.register("known", pa.table({"id": known, "code": np.arange(first)}))
            session.execute(
                f"CREATE TEMP TABLE {name}_known AS "
                f"SELECT CAST(id AS {kind}) AS id, code FROM known"
            )
            session.execute(f"DELETE FROM {name}_ids WHERE id IN (SELECT id FROM {name}_known)")
        whole = kind == "BIGINT"
        order = "id"
        if not whole and whole_before:
            as_number = "TRY_CAST(id AS BIGINT)"
            (others,) = session.row(
                f"SELECT count(*) FROM {name}_ids "
                f"WHERE {as_number} IS NULL OR CAST({as_number} AS VARCHAR) <> id"
            )
            whole, order = others == 0, "id" if others else as_number
            if others and known is not None:
                (example,) = session.row(
                    f"SELECT min(id) FROM {name}_ids "
                    f"WHERE {as_number} IS NULL OR CAST({as_number} AS VARCHAR) <> id"
                )
                raise InputError(
                    f"Expected ids that are whole numbers, as those of the folder; found "
                    f"{example!r} in {sources[0][1]!r}. Check the column."
                )
        (count,) = session.row(f"SELECT {first} + count(*) FROM {name}_ids")
        code = "INTEGER" if count < 2**31 else "BIGINT"
        before = f"SELECT id, CAST(code AS {code}) AS code FROM {name}_known UNION ALL "
        session.execute(
            f"CREATE TEMP TABLE {name} AS {'' if known is None else before}SELECT id, "
            f"CAST({first} + row_number() OVER (ORDER BY {order}) - 1 AS {code}) AS code "
            f"FROM {name}_ids"
        )
        session.execute(f"DROP TABLE {name}_ids")
        return cls(name, count, whole, kind)

    def write(self, session: DuckDBSession, path: Path) -> bool:
        """Write the ids in the order of their numbers, unless they are these numbers already.

        Returns:
            Whether there was anything to write.
        """
        import pyarrow as pa
        from pyarrow import parquet

        kind, arrow = ("BIGINT", pa.int64()) if self.whole else ("VARCHAR", pa.large_string())
        as_kind = f"CAST(id AS {kind})"
        if self.whole:
            (same,) = session.row(f"SELECT bool_and({as_kind} = code) FROM {self.name}")
            if same:
                return False
        with parquet.ParquetWriter(path, pa.schema([("id", arrow)])) as writer:
            for batch in session.batches(f"SELECT {as_kind} AS id FROM {self.name} ORDER BY code"):
                writer.write_table(pa.table({"id": batch["id"].cast(arrow)}))
        return True


def check_ids(session: DuckDBSession, table: SourceTable, column: str) -> str:
    """Refuse a column that cannot hold ids; returns the SQL type to compare them in."""
    kind = table.columns[column]
    if not kind.startswith(_IDS) or kind.endswith("]"):
        raise InputError(
            f"Expected ids that are whole numbers or text in {column!r} of {table.source}; found "
            f"{kind}. Cast the column (ids with gaps are often stored so by mistake)."
        )
    # An empty text is no id in any format: a CSV has no other way to leave one out.
    there = f"nullif(CAST({quoted(column)} AS VARCHAR), '')"
    there = quoted(column) if kind in _WHOLE else there
    rows, without = session.row(f"SELECT count(*), count(*) - count({there}) FROM {table.name}")
    if not rows:
        raise InputError(f"Expected at least one row in {table.source}; it is empty.")
    if without:
        raise InputError(
            f"Expected an id in every row of {column!r} in {table.source}; {without:,} of "
            f"{rows:,} rows have none."
        )
    return "BIGINT" if kind in _WHOLE else "VARCHAR"


@dataclass(frozen=True)
class EventDays:
    """Conversion of the time column to days.

    Attributes:
        sql: The day of an event, counted from day zero.
        unit: What times were taken to count.
        zero: The date of day 0; empty if days are numbered as they came.
        first: The first day.
        last: The last day.
    """

    sql: str
    unit: str
    zero: str
    first: int
    last: int

    @classmethod
    def read(
        cls, session: DuckDBSession, table: SourceTable, settings: IngestSettings
    ) -> EventDays:
        """Look at all times once; refuse those that are missing or cannot be read."""
        assert settings.time is not None
        column, kind = quoted(settings.time), table.columns[settings.time]
        if kind == "BOOLEAN":
            raise InputError(
                f"Expected times in {settings.time!r} of {table.source}; found {kind}. Name the "
                f"column of times with --time."
            )
        number, words = number_sql(settings.time, kind), _seconds(column, kind)
        unit = settings.time_unit
        if kind.startswith(_TIMES):
            unit = "date"
        elif unit in ("auto", "date") and _are_compact(session, table, column):
            unit, words = "date", _COMPACT_SECONDS.format(column)
        elif kind == "VARCHAR" and unit == "auto":
            (numbers,) = session.row(f"SELECT count({number}) FROM {table.name}")
            unit = "auto" if numbers else "date"
        elif unit == "date" and kind != "VARCHAR":
            raise InputError(
                f"Expected dates in {settings.time!r} of {table.source}; found {kind}. Say what "
                "its numbers count with --time-unit."
            )
        value = words if unit == "date" else number
        least, most = _range(session, table, settings.time, value)
        if unit == "auto":
            size = max(abs(least), abs(most))
            unit = next(name for name, (_, below) in _UNITS.items() if size < below)
        length = 86_400 if unit == "date" else _UNITS[unit][0]
        first, last = int(least // length), int(most // length)
        zero = 0 if unit == "day" else first
        if settings.day_zero is not None:
            zero = (settings.day_zero - _EPOCH).days
        if first - zero < -(2**15) or last - zero >= 2**15:
            raise InputError(
                f"Expected days that fit 16 bits; found {first - zero} to {last - zero} with "
                f"times read as {unit}. Say --time-unit or --day-zero, or leave out stray times."
            )
        named = unit != "day" or settings.day_zero is not None
        return cls(
            f"CAST(floor({value} / {length}) AS BIGINT) - {zero}",
            unit,
            str(_EPOCH + timedelta(days=zero)) if named else "",
            first - zero,
            last - zero,
        )


def _seconds(column: str, kind: str) -> str:
    """Seconds since 1970 of a date; a text may name a zone, and is in UTC if it does not."""
    if kind == "VARCHAR":  # DuckDB knows words for times, such as epoch
        dated = f"CASE WHEN regexp_matches({column}, '[0-9]') THEN {column} END"
        return f"epoch(TRY_CAST({dated} AS TIMESTAMPTZ))"
    if kind.startswith("TIMESTAMPTZ"):  # of nanoseconds, whose epoch DuckDB does not know
        return f"epoch(CAST({column} AS TIMESTAMPTZ))"
    return f"epoch({column})"


def _are_compact(session: DuckDBSession, table: SourceTable, column: str) -> bool:
    """True if all times are dates without hyphens; as seconds they would all lie in one year."""
    sql = f"SELECT 1 FROM {table.name} WHERE {_COMPACT_SECONDS.format(column)} IS NULL LIMIT 1"
    return not session.rows(sql)  # of other times the first row tells


def _range(
    session: DuckDBSession, table: SourceTable, name: str, value: str
) -> tuple[float, float]:
    """The least and the largest time; refuses those that cannot be read."""
    column = quoted(name)
    # FILTER and not WHERE: parquet's statistics leave out NaN, and DuckDB believes them so far as
    # to skip rows that could not satisfy a WHERE.
    bad = f"FILTER ({value} IS NULL OR NOT isfinite({value}))"
    count, least, most = session.row(
        f"SELECT count(*) {bad}, min({value}), max({value}) FROM {table.name}"
    )
    if count:  # the example turns all times into texts
        words = f"any_value(coalesce(CAST({column} AS VARCHAR), 'nothing'))"
        (example,) = session.row(f"SELECT {words} {bad} FROM {table.name}")
        raise InputError(
            f"Expected a time in every row of {name!r} in {table.source}; found {count:,} rows "
            f"without a readable one, such as {example!r}. Give seconds or milliseconds since "
            f"1970, or dates such as 2024-05-31, or leave these rows out."
        )
    return least, most


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
        cls,
        session: DuckDBSession,
        table: SourceTable,
        key: str,
        settings: IngestSettings,
        known: Sequence[str] = (),
    ) -> Iterator[AttributeColumn]:
        """The attributes of a table, in its order; every column but the ids.

        Of attributes with several values each known one has its column, whether or not it occurs.
        Numbers, dates (as days since 1970) and, in CSV, columns whose every value reads as a
        number are numeric. Texts and truth values are categories.
        """
        for name, kind in table.columns.items():
            if name == key or name in settings.ignore:
                continue
            if name in settings.several:
                head = f"{name}: "
                there = {one.removeprefix(head) for one in known if one.startswith(head)}
                yield from cls._several(session, table, name, settings.separator, there)
                continue
            if name in settings.category:
                numeric = False
            elif name in settings.numeric:
                numeric = True
            elif table.is_text:
                numeric = not _unreadable(session, table, name)[0]
            elif kind.startswith((*_NUMBERS, *_TIMES)) and not kind.endswith("]"):
                numeric = True
            elif kind.startswith(_TEXTS) and not kind.endswith("]"):
                numeric = False
            else:
                raise InputError(
                    f"Expected numbers or texts in {name!r} of {table.source}; found {kind}. "
                    "Leave the column out with --ignore, or name it with --several if it is a "
                    "list of texts."
                )
            yield (
                cls._number(session, table, name)
                if numeric
                else cls._category(session, table, name)
            )

    @classmethod
    def _number(cls, session: DuckDBSession, table: SourceTable, name: str) -> AttributeColumn:
        kind, value = table.columns[name], _number_sql(table, name)
        count, example = (0, "") if kind in _NUMBERS else _unreadable(session, table, name)
        if count:
            raise InputError(
                f"Expected numbers in {name!r} of {table.source}; {count:,} rows hold something "
                f"else, such as {example!r}. Make it a category, or name what stands for no value "
                "with --missing."
            )
        # FLOAT ends at 3.4e38: what lies beyond would be written as infinite.
        large = f"FILTER (abs({value}) > 3.4028234e38 AND NOT isnan({value}))"
        infinite = 0
        if kind not in _WHOLE:
            (infinite,) = session.row(f"SELECT count(*) {large} FROM {table.name}")
        if infinite:
            raise InputError(
                f"Expected finite numbers in {name!r} of {table.source}; {infinite:,} rows are "
                "infinite or beyond 3.4e38. Leave them empty: a missing value is allowed."
            )
        return cls(name, True, f"CAST({value} AS FLOAT)")

    @classmethod
    def _category(cls, session: DuckDBSession, table: SourceTable, name: str) -> AttributeColumn:
        import pyarrow as pa

        value = f"CAST({quoted(name)} AS VARCHAR)"
        sql = (
            f"SELECT DISTINCT {value} AS v FROM {table.name} WHERE {value} IS NOT NULL ORDER BY v"
        )
        pieces = [batch["v"].cast(pa.large_string()) for batch in session.batches(sql)]
        values = pa.chunked_array(pieces, type=pa.large_string()).combine_chunks()
        if len(values) >= 2**31:
            raise InputError(
                f"Expected fewer than 2**31 categories in {name!r} of {table.source}."
            )
        return cls(name, False, value, values)

    @classmethod
    def _several(
        cls,
        session: DuckDBSession,
        table: SourceTable,
        name: str,
        separator: str,
        known: Collection[str],
    ) -> Iterator[AttributeColumn]:
        """A column of zeros and ones for each value; missing where a row has no value."""
        column, kind = quoted(name), table.columns[name]
        if kind == "VARCHAR":
            between = literal(rf"\s*{re.escape(separator)}\s*")
            column = f"string_split_regex(trim({column}), {between})"
        elif kind != "VARCHAR[]":
            raise InputError(
                f"Expected texts or lists of texts in {name!r} of {table.source}; found {kind}. "
                "Do not name it with --several."
            )
        values = session.rows(
            f"SELECT DISTINCT v FROM (SELECT unnest({column}) AS v FROM {table.name}) "
            f"WHERE v <> '' ORDER BY v LIMIT {_MOST_VALUES + 1}"
        )
        if len(values) > _MOST_VALUES:
            raise InputError(
                f"Expected at most {_MOST_VALUES:,} values in {name!r} of {table.source}, each a "
                "column; found more. Check --separator, or leave it out with --ignore."
            )
        for value in sorted({*known, *(value for (value,) in values)}):
            # Of a list without a value the text is empty; NULL stays NULL.
            sql = (
                f"CASE WHEN array_to_string({column}, '') <> '' THEN "
                f"CAST(list_contains({column}, {literal(value)}) AS FLOAT) END"
            )
            yield cls(f"{name}: {value}", True, sql)


def _number_sql(table: SourceTable, name: str) -> str:
    kind = table.columns[name]
    if kind.startswith(_TIMES):
        return f"(epoch({quoted(name)}) / 86400)"
    return number_sql(name, kind)


def _unreadable(session: DuckDBSession, table: SourceTable, name: str) -> tuple[int, str]:
    column = quoted(name)
    count, example = session.row(
        f"SELECT count(*), any_value(CAST({column} AS VARCHAR)) FROM {table.name} "
        f"WHERE {column} IS NOT NULL AND {_number_sql(table, name)} IS NULL"
    )
    return count, example


def write_attributes(
    session: DuckDBSession,
    table: SourceTable | None,
    key: str,
    ids: IdMap,
    folder: Path,
    settings: IngestSettings,
    known: AttributeTable | None = None,
    *,
    missing: bool = True,
) -> tuple[tuple[str, str], ...]:
    """Write what :meth:`AttributeTable.load` reads.

    Rows come in any order and are written where they belong, so nothing is sorted. Nodes without
    a row have every attribute missing.

    Args:
        session: Where to work.
        table: A row per node; ``None`` for none.
        key: Its column of ids.
        ids: Numbers of the ids.
        folder: Where to write.
        settings: Kinds of attributes.
        known: What is known of the first nodes: its columns stay, a row of the table takes the
            place of what it had, and codes of categories keep their meaning.
        missing: Whether there may be nodes without a row.

    Returns:
        Each attribute of the table and its kind.
    """
    if known is not None and known.category_names and not known.category_values:
        raise InputError(
            "Expected a folder that knows the values behind its categories; found codes alone. "
            "Ingest all into a new folder."
        )
    columns: list[AttributeColumn] = []
    identity = f"CAST({quoted(key)} AS {ids.kind})"
    if table is not None:
        if known is not None:
            settings = _kinds_as_known(table, key, known, settings)
        there = () if known is None else known.numeric_names
        columns = list(AttributeColumn.read_all(session, table, key, settings, there))
    number_names = [column.name for column in columns if column.numeric]
    values: dict[str, Any] = {c.name: c.values for c in columns if not c.numeric}
    if known is not None:
        number_names = list(known.numeric_names)
        before = zip(known.category_names, known.category_values, strict=True)
        values = {name: _joined(old, values.get(name)) for name, old in before}
    folder.mkdir()
    nothing = (np.nan, -1) if missing else (None, None)
    sizes = ((ids.count, len(number_names)), (ids.count, len(values)))
    numeric = _filled(folder / "numeric.npy", sizes[0], np.float32, nothing[0])
    codes = _filled(folder / "categories.npy", sizes[1], np.int32, nothing[1])
    for begin in range(0, 0 if known is None else len(known), _ROWS_AT_ONCE):
        assert known is not None
        rows = slice(begin, min(begin + _ROWS_AT_ONCE, len(known)))
        numeric[rows] = known.numeric[rows].numpy()
        codes[rows] = known.categories[rows].numpy()
    places = {name: place for place, name in enumerate((*number_names, *values))}
    written = [column for column in columns if column.name in places]
    if table is not None and written:
        chosen = ", ".join(f"{column.sql} AS a{places[column.name]}" for column in written)
        sql = (
            f"SELECT m.code, t.* EXCLUDE (id) FROM (SELECT {identity} AS id, {chosen} "
            f"FROM {table.name}) t JOIN {ids.name} m ON t.id = m.id"
        )
        for batch in session.batches(sql):
            rows = batch["code"].to_numpy()
            for column in written:
                place = places[column.name]
                if column.numeric:
                    numeric[rows, place] = _floats(batch[f"a{place}"])
                else:
                    found = _codes(batch[f"a{place}"], values[column.name])
                    codes[rows, place - len(number_names)] = found
    _close(numeric)
    _close(codes)
    facts = {
        "numeric_names": number_names,
        "category_names": list(values),
        "category_sizes": [len(value) for value in values.values()],
    }
    (folder / "table.json").write_text(json.dumps(facts), encoding="utf-8")
    if values:
        write_values(tuple(values.values()), folder)
    return tuple((c.name, "numeric" if c.numeric else "category") for c in columns)


def _kinds_as_known(
    table: SourceTable, key: str, known: AttributeTable, settings: IngestSettings
) -> IngestSettings:
    """Settings under which columns have the kinds that they had; refuses others."""
    names = [name for name in table.columns if name not in (key, *settings.ignore)]
    kept = {*known.numeric_names, *known.category_names, *settings.several}
    if unknown := [name for name in names if name not in kept]:
        raise InputError(
            f"Expected attributes that the folder has; found {unknown[0]!r} in {table.source}. "
            "Leave it out with --ignore, or name it with --several if its values are columns."
        )
    return replace(
        settings,
        numeric=tuple(name for name in known.numeric_names if name in names),
        category=tuple(name for name in known.category_names if name in names),
    )


def _joined(before: Any, found: Any | None) -> Any:
    """Values of a category: those that were, then the new ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if found is None:
        return before
    new = found.filter(pc.invert(pc.is_in(found, value_set=before)))
    return pa.chunked_array([before, new], type=pa.large_string()).combine_chunks()


def _filled(
    path: Path, shape: tuple[int, int], kind: npt.DTypeLike, value: float | None
) -> npt.NDArray[Any]:
    """Map a new array; without a value every row is still to be written."""
    if 0 in shape:  # nothing to map
        array = np.empty(shape, dtype=kind)
        np.save(path, array)
        return array
    array = open_memmap(path, mode="w+", dtype=kind, shape=shape)
    for begin in range(0, shape[0] if value is not None else 0, _ROWS_AT_ONCE):
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


def refuse_repeated(session: DuckDBSession, table: SourceTable, key: str, ids: IdMap) -> None:
    """Refuse a table of attributes with two rows for one id."""
    identity = f"CAST({quoted(key)} AS {ids.kind})"
    repeated = session.rows(
        f"SELECT {identity} AS id, count(*) AS n FROM {table.name} GROUP BY id HAVING n > 1 "
        "ORDER BY id LIMIT 1"
    )
    if repeated:
        identifier, count = repeated[0]
        raise InputError(
            f"Expected one row for each {key!r} in {table.source}; {identifier!r} has {count}. "
            "Keep one of them."
        )
