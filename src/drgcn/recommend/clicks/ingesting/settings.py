"""How a table of clicks is to be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Final

from drgcn.errors import InputError

TIME_UNITS: Final = ("auto", "day", "second", "millisecond", "microsecond", "nanosecond", "date")


@dataclass(frozen=True)
class IngestSettings:
    """Names of columns, meaning of times, kinds of attributes, and what the work may use.

    Attributes:
        user: Column of users in the table of clicks.
        item: Column of items.
        time: Column of times; ``None`` for clicks without days.
        user_key: Column of ids in the table of user attributes. (default: as ``user``)
        item_key: Column of ids in the table of item attributes. (default: as ``item``)
        time_unit: What a number in the time column counts since 1970, or ``"date"`` for dates and
            times in words. ``"auto"`` goes by size: numbers below 1e5 are days as they are, below
            1e11 seconds, below 1e14 milliseconds, below 1e17 microseconds, else nanoseconds.
        day_zero: The day that is called 0, in UTC. (default: that of the first click; days given
            as days are kept as they are)
        numeric: Attributes that are numbers whatever they look like.
        category: Attributes that are categories whatever they look like.
        ignore: Attributes to leave out.
        missing: Texts in CSV files that stand for no value.
        memory: What DuckDB may hold in memory, such as ``"4GB"``; the rest is spilled to disk.
            (default: half of the machine's)
        threads: Threads. (default: all)
    """

    user: str = "user"
    item: str = "item"
    time: str | None = "time"
    user_key: str | None = None
    item_key: str | None = None
    time_unit: str = "auto"
    day_zero: date | None = None
    numeric: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    missing: tuple[str, ...] = ("",)
    memory: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.time_unit not in TIME_UNITS:
            raise InputError(
                f"Expected a time unit of {', '.join(TIME_UNITS)}; found {self.time_unit!r}."
            )
        if self.memory is not None and not re.fullmatch(
            r"\d+(\.\d+)?\s*[KMGT]i?B", self.memory, re.IGNORECASE
        ):
            raise InputError(f"Expected memory such as 4GB or 500MB; found {self.memory!r}.")
        if self.threads is not None and self.threads < 1:
            raise InputError(f"Expected at least one thread; found {self.threads}.")
        named = [self.user, self.item, *([] if self.time is None else [self.time])]
        if len(set(named)) < len(named):
            raise InputError(f"Expected different columns for user, item and time; found {named}.")
        if both := set(self.numeric) & set(self.category):
            raise InputError(
                f"Expected each attribute to be a number or a category; found both for "
                f"{', '.join(sorted(both))}."
            )
