"""Days out of times: epochs of any unit, dates, or days as they are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from drgcn.errors import InputError
from drgcn.recommend.clicks.ingesting.settings import IngestSettings
from drgcn.recommend.clicks.ingesting.source_table import SourceTable, quoted
from drgcn.recommend.clicks.ingesting.workshop import Workshop

# What of a unit makes a day; and below what size a number is taken for that unit.
_UNITS: Final = {
    "day": (1, 1e5),
    "second": (86_400, 1e11),
    "millisecond": (86_400 * 10**3, 1e14),
    "microsecond": (86_400 * 10**6, 1e17),
    "nanosecond": (86_400 * 10**9, float("inf")),
}
_WORDS: Final = ("DATE", "TIMESTAMP")
_EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True)
class EventDays:
    """How the time column becomes days.

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
    def read(cls, shop: Workshop, table: SourceTable, settings: IngestSettings) -> EventDays:
        """Looks at all times once; refuses those that are missing or cannot be read."""
        assert settings.time is not None
        column, kind = quoted(settings.time), table.columns[settings.time]
        number, words = f"TRY_CAST({column} AS DOUBLE)", _seconds(column, kind)
        unit = settings.time_unit
        if kind.startswith(_WORDS):
            unit = "date"
        elif kind == "VARCHAR" and unit == "auto":
            (numbers,) = shop.row(f"SELECT count({number}) FROM {table.name}")
            unit = "auto" if numbers else "date"
        elif unit == "date" and kind != "VARCHAR":
            raise InputError(
                f"Expected dates in {settings.time!r} of {table.source}; found {kind}. Say what "
                "its numbers count with --time-unit."
            )
        value = words if unit == "date" else number
        _refuse_unreadable(shop, table, settings.time, value)
        least, most = shop.row(f"SELECT min({value}), max({value}) FROM {table.name}")
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
    if kind == "VARCHAR":
        return f"epoch(TRY_CAST({column} AS TIMESTAMPTZ))"
    return f"epoch({column})"


def _refuse_unreadable(shop: Workshop, table: SourceTable, name: str, value: str) -> None:
    column = quoted(name)
    # FILTER and not WHERE: parquet's statistics leave out NaN, and DuckDB believes them so far as
    # to skip rows that could not satisfy a WHERE.
    bad = f"FILTER ({value} IS NULL OR NOT isfinite({value}))"
    count, example = shop.row(
        f"SELECT count(*) {bad}, any_value(coalesce(CAST({column} AS VARCHAR), 'nothing')) {bad} "
        f"FROM {table.name}"
    )
    if count:
        raise InputError(
            f"Expected a time in every row of {name!r} in {table.source}; found {count:,} rows "
            f"without a readable one, such as {example!r}. Give seconds or milliseconds since "
            f"1970, or dates such as 2024-05-31, or leave these rows out."
        )
