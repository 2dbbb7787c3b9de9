"""Ingest tables of clicks and attributes into a folder of clicks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from drgcn._io import whole_folder
from drgcn.errors import InputError
from drgcn.recommend.clicks.data import ClickData, write_manifest
from drgcn.recommend.clicks.graph import transposed
from drgcn.recommend.clicks.ingest_columns import EventDays, IdMap, write_attributes
from drgcn.recommend.clicks.ingest_sql import (
    DuckDBSession,
    IngestSettings,
    Paths,
    SourceTable,
    duckdb_session,
    quoted,
)
from drgcn.sampling.graph import CSRGraph

_OPTIONS = {"user": "--user", "item": "--item", "time": "--time"}


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


class NpyStream:
    """Appends one-dimensional pieces to a file that ``np.load`` reads when it is closed.

    Args:
        path: The file.
        dtype: Type of its entries.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.dtype = np.dtype(dtype)
        self.length = 0
        self._file = path.open("w+b")
        self._write_header()

    def append(self, piece: npt.NDArray[Any]) -> None:
        """Adds entries at the end."""
        self._file.write(np.ascontiguousarray(piece, dtype=self.dtype).data)
        self.length += len(piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # NumPy leaves room in the header for a longer first axis: it is written over in place.
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        header = {
            "descr": npy.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.length,),
        }
        npy.write_array_header_1_0(self._file, header)


def write_clicks(
    batches: Iterable[Any], folder: Path, num_users: int, num_items: int, with_days: bool
) -> int:
    """Writes what :meth:`ClickGraph.load` reads.

    Args:
        batches: Record batches with columns ``u``, ``i`` and perhaps ``d``, sorted by these.
        folder: Where to write.
        num_users: Number of users.
        num_items: Number of items.
        with_days: Whether there are days.

    Returns:
        Number of different pairs. Of a pair that comes more than once the first is kept.
    """
    kind = np.int32 if max(num_users, num_items) < 2**31 else np.int64
    counts = np.zeros(num_users + 1, dtype=np.int64)
    last = (-1, -1)
    with ExitStack() as stack:
        col = stack.enter_context(NpyStream(folder / "by_user" / "col.npy", kind))
        if with_days:
            days = stack.enter_context(NpyStream(folder / "days.npy", np.int16))
        for batch in batches:
            if not batch.num_rows:
                continue
            users, items = batch["u"].to_numpy(), batch["i"].to_numpy()
            new = np.empty(len(users), dtype=bool)
            new[0] = (users[0], items[0]) != last
            new[1:] = (users[1:] != users[:-1]) | (items[1:] != items[:-1])
            last = (users[-1], items[-1])
            col.append(items[new])
            if with_days:
                days.append(batch["d"].to_numpy()[new])
            first = int(users[0])
            here = np.bincount(users[new] - first)  # sorted: a batch spans few users
            counts[first + 1 : first + 1 + len(here)] += here
    rowptr = np.cumsum(counts, out=counts)
    np.save(folder / "by_user" / "rowptr.npy", rowptr)
    facts = {"num_cols": num_items, "arrays": ["rowptr", "col"]}
    (folder / "by_user" / "graph.json").write_text(json.dumps(facts), encoding="utf-8")
    transposed(CSRGraph.open(folder / "by_user")).save(folder / "by_item")
    return int(rowptr[-1])


def ingest(
    clicks: Paths,
    folder: str | PathLike[str],
    *,
    users: Paths | None = None,
    items: Paths | None = None,
    settings: IngestSettings | None = None,
    name: str | None = None,
) -> IngestReport:
    """Writes a folder that :meth:`ClickData.load` reads, whole or not at all.

    Events never lie in memory all at once: DuckDB keeps to its limit and spills the rest beside
    the folder. Of a pair that occurs more than once the first day is kept. Users and items are
    numbered by ascending id; those that have attributes and no click are numbered with the rest.

    Args:
        clicks: Parquet or CSV with a row per event: a file, a folder of parts, or several.
        folder: A folder that does not exist yet.
        users: Attributes, a row per user. (default: none)
        items: Attributes, a row per item. (default: none)
        settings: Names of columns and the like. (default: columns user, item and time)
        name: What the set is called. (default: the folder's name)

    Returns:
        What was found.

    Raises:
        InputError: If a table cannot be used; one sentence says why.
    """
    settings = settings or IngestSettings()
    with whole_folder(folder) as partial:
        with duckdb_session(partial / "work", settings.memory, settings.threads) as session:
            report = _ingest(session, clicks, users, items, settings, partial)
        data = ClickData.open_parts(partial, name or Path(folder).name)
        write_manifest(data, partial, ingest=report.to_dict())
    return report


def _ingest(
    session: DuckDBSession,
    clicks: Paths,
    users: Paths | None,
    items: Paths | None,
    settings: IngestSettings,
    folder: Path,
) -> IngestReport:
    events = SourceTable.open(session, clicks, "events")
    for role in ("user", "item", "time"):
        if (column := getattr(settings, role)) is not None:
            events.require(column, _OPTIONS[role])
    tables: dict[str, tuple[SourceTable, str] | None] = {}
    maps: dict[str, IdMap] = {}
    for side, paths in (("user", users), ("item", items)):
        tables[side] = None
        if paths is not None:
            table = SourceTable.open(session, paths, f"{side}_attributes", settings.missing)
            key = getattr(settings, f"{side}_key") or getattr(settings, side)
            table.require(key, f"--{side}-key")
            tables[side] = (table, key)
        own = tables[side]
        sources = [(events, getattr(settings, side)), *([] if own is None else [own])]
        maps[side] = IdMap.number(session, f"{side}_map", sources)
    _expect_attributes(tables, settings)
    days = EventDays.read(session, events, settings) if settings.time is not None else None
    pairs = write_clicks(
        session.batches(_sorted_events(events, maps, days, settings)),
        folder,
        maps["user"].count,
        maps["item"].count,
        with_days=days is not None,
    )
    user_side, item_side = (
        _side(session, side, events, tables[side], maps[side], folder, settings) for side in maps
    )
    (count,) = session.row(f"SELECT count(*) FROM {events.name}")
    return IngestReport(
        count,
        pairs,
        user_side,
        item_side,
        time_unit=days.unit if days else "",
        days=(days.first, days.last) if days else None,
        day_zero=days.zero if days else "",
    )


def _expect_attributes(
    tables: dict[str, tuple[SourceTable, str] | None], settings: IngestSettings
) -> None:
    """Refuses options for attributes that no table has: a misspelt name would go unseen."""
    known = [
        column
        for own in tables.values()
        if own is not None
        for column in own[0].columns
        if column != own[1]
    ]
    for option in ("numeric", "category", "ignore"):
        if unknown := [name for name in getattr(settings, option) if name not in known]:
            raise InputError(
                f"Expected --{option} to name an attribute of "
                f"{', '.join(map(repr, known)) or 'users or items, but no table has any'}; found "
                f"{unknown[0]!r}."
            )


def _sorted_events(
    events: SourceTable, maps: dict[str, IdMap], days: EventDays | None, settings: IngestSettings
) -> str:
    user = f"CAST({quoted(settings.user)} AS {maps['user'].kind})"
    item = f"CAST({quoted(settings.item)} AS {maps['item'].kind})"
    day = f", CAST({days.sql} AS SMALLINT) AS d" if days is not None else ""
    chosen, order = (
        ("u.code AS u, i.code AS i, e.d", "1, 2, 3")
        if day
        else (
            "u.code AS u, i.code AS i",
            "1, 2",
        )
    )
    return (
        f"SELECT {chosen} FROM (SELECT {user} AS user_id, {item} AS item_id{day} "
        f"FROM {events.name}) e JOIN {maps['user'].name} u ON e.user_id = u.id "
        f"JOIN {maps['item'].name} i ON e.item_id = i.id ORDER BY {order}"
    )


def _side(
    session: DuckDBSession,
    side: str,
    events: SourceTable,
    own: tuple[SourceTable, str] | None,
    ids: IdMap,
    folder: Path,
    settings: IngestSettings,
) -> SideReport:
    ids.write(session, folder / f"{side}_ids.parquet")
    if own is None:
        return SideReport(f"{side}s", ids.count)
    table, key = own
    columns = write_attributes(session, table, key, ids, folder / f"{side}s", settings)
    of_events = f"CAST({quoted(getattr(settings, side))} AS {ids.kind})"
    of_table = f"CAST({quoted(key)} AS {ids.kind})"
    clicked = f"(SELECT DISTINCT {of_events} AS id FROM {events.name})"
    known = f"(SELECT {of_table} AS id FROM {table.name})"
    (with_clicks,) = session.row(f"SELECT count(*) FROM {clicked}")
    bare, example = session.row(
        f"SELECT count(*), CAST(arg_min(m.id, m.code) AS VARCHAR) FROM {ids.name} m "
        f"ANTI JOIN {known} k ON m.id = k.id"
    )
    return SideReport(f"{side}s", ids.count, ids.count - with_clicks, bare, example or "", columns)
