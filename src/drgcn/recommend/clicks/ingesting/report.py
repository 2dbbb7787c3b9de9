"""What was found in the tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SideReport:
    """Counts for one side.

    Attributes:
        side: ``"users"`` or ``"items"``.
        count: How many there are.
        cold: Those in the table of attributes that have no click.
        bare: Those with clicks that have no row of attributes.
        bare_example: The id of the first of these.
        columns: Each attribute and its kind, ``"numeric"`` or ``"category"``.
    """

    side: str
    count: int
    cold: int = 0
    bare: int = 0
    bare_example: str = ""
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class IngestReport:
    """Counts of one ingest.

    Attributes:
        events: Rows in the table of clicks.
        clicks: Pairs of user and item among them.
        users: Counts for users.
        items: Counts for items.
        time_unit: What times were taken to count; empty without times.
        days: The first and the last day; ``None`` without times.
        day_zero: The date of day 0; empty if days are numbered as they came.
    """

    events: int
    clicks: int
    users: SideReport
    items: SideReport
    time_unit: str = ""
    days: tuple[int, int] | None = None
    day_zero: str = ""

    def lines(self) -> Iterator[str]:
        """The report as sentences."""
        repeated = self.events - self.clicks
        yield (
            f"{self.events:,} events -> {self.clicks:,} clicks of {self.users.count:,} users on "
            f"{self.items.count:,} items; {repeated:,} repeated a pair and were left out"
        )
        if self.days is not None:
            first, last = self.days
            zero = f", day 0 is {self.day_zero}" if self.day_zero else ""
            yield f"days {first} to {last} (times read as {self.time_unit}{zero})"
            if first < 0 and self.day_zero:
                yield f"warning: there are clicks before day 0, the first on day {first}"
        for side in (self.users, self.items):
            if side.columns:
                kinds = [kind for _, kind in side.columns]
                yield (
                    f"{side.side}: {kinds.count('numeric')} numbers, {kinds.count('category')} "
                    f"categories; {side.cold:,} have attributes and no click"
                )
            if side.bare:
                yield (
                    f"{side.side}: {side.bare:,} have clicks and no row of attributes, the first "
                    f"is {side.bare_example!r}; their attributes are missing"
                )

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        from dataclasses import asdict

        return asdict(self)
