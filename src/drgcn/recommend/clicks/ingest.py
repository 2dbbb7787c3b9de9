"""Ingest tables of clicks and attributes into a folder of clicks, new or there already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from drgcn._format import plural
from drgcn._io import LockedError, lock, replacing_folder, whole_folder
from drgcn.errors import InputError
from drgcn.recommend.clicks.data import ClickData, read_manifest, write_manifest
from drgcn.recommend.clicks.graph import ClickGraph, entries, write_clicks
from drgcn.recommend.clicks.ingest_columns import (
    EventDays,
    IdMap,
    check_ids,
    refuse_repeated,
    write_attributes,
)
from drgcn.recommend.clicks.ingest_sql import (
    Attributes,
    DuckDBSession,
    IngestSettings,
    LeftOut,
    Paths,
    SourceTable,
    duckdb_session,
    keep_core,
    keep_rated,
    quoted,
)
from drgcn.records import expect_fields, expect_object, expect_types
from drgcn.sampling.graph import load_tensor

_ROLES = ("user", "item", "time", "rating")
# Settings about tables, which hold for those that are added later.
_KEPT = (
    *("user", "item", "time", "user_key", "item_key", "time_unit"),
    *("ignore", "several", "separator", "missing"),
)


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
        several: Attributes with several values, and how many values each has.
    """

    side: str
    count: int
    cold: int = 0
    bare: int = 0
    bare_example: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    several: tuple[tuple[str, int], ...] = ()


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
        left_out: Rows that were left out before; ``events`` does not count them.
    """

    events: int
    clicks: int
    users: SideReport
    items: SideReport
    time_unit: str = ""
    days: tuple[int, int] | None = None
    day_zero: str = ""
    left_out: LeftOut = field(default_factory=LeftOut)

    def lines(self) -> Iterator[str]:
        """The report as sentences."""
        yield from self.left_out.lines()
        repeated = self.events - self.clicks
        yield (
            f"{self.events:,} events -> {self.clicks:,} clicks of {self.users.count:,} users on "
            f"{self.items.count:,} items; {repeated:,} repeated a pair and were left out"
        )
        if self.days is not None:
            first, last = self.days
            zero = f", day 0 is {self.day_zero}" if self.day_zero else ""
            yield f"days {first} to {last} (times read as {self.time_unit}{zero})"
            if self.day_zero.startswith("1970") and self.time_unit != "date":
                yield (
                    f"warning: these times begin in 1970; if they count no {self.time_unit}s "
                    f"since then, say what they count (--time-unit)"
                )
            if first < 0 and self.day_zero:
                yield f"warning: there are clicks before day 0, the first on day {first}"
        for side in (self.users, self.items):
            if side.columns:
                kinds = [kind for _, kind in side.columns]
                yield (
                    f"{side.side}: {kinds.count('numeric')} numbers, {kinds.count('category')} "
                    f"categories; {side.cold:,} have attributes and no click"
                )
            for name, values in side.several:
                counted = plural(values, "value")
                yield f"{side.side}: {counted} of {name!r}, each a column of 0 and 1"
            if side.bare:
                yield (
                    f"{side.side}: {side.bare:,} have clicks and no row of attributes, the first "
                    f"is {side.bare_example!r}; their attributes are missing"
                )

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class AppendReport:
    """Counts of what joined a folder.

    Attributes:
        events: Rows in the table of clicks.
        clicks: Pairs of user and item among them that the folder did not have.
        users: Users that it did not have.
        items: Items that it did not have.
        updated_users: Users it had whose row of attributes took the place of the one before.
        updated_items: Likewise.
        days: The first and the last day of all clicks; ``None`` without times.
        new_values: Values of attributes with several that have no column, and are left out.
        left_out: Rows that were left out before; ``events`` does not count them.
    """

    events: int
    clicks: int
    users: int
    items: int
    updated_users: int
    updated_items: int
    days: tuple[int, int] | None
    new_values: tuple[str, ...]
    left_out: LeftOut

    def lines(self) -> Iterator[str]:
        """The report as sentences."""
        yield from self.left_out.lines()
        yield (
            f"{plural(self.events, 'event')} -> {plural(self.clicks, 'new click')}, "
            f"{plural(self.users, 'new user')}, {plural(self.items, 'new item')}; "
            f"{self.events - self.clicks:,} repeated a pair"
        )
        if self.days is not None:
            yield f"days {self.days[0]} to {self.days[1]}"
        for side, count in (("users", self.updated_users), ("items", self.updated_items)):
            if count:
                yield f"{side}: {count:,} that were there have new attributes"
        if self.new_values:
            yield f"left out, for they have no column: {', '.join(self.new_values)}"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return asdict(self)


def ingest(
    clicks: Paths,
    folder: str | PathLike[str],
    *,
    users: Paths | None = None,
    items: Paths | None = None,
    settings: IngestSettings | None = None,
    name: str | None = None,
) -> IngestReport:
    """Write a folder that :meth:`ClickData.load` reads, whole or not at all.

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
        kept = {name: getattr(settings, name) for name in _KEPT}
        write_manifest(data, partial, ingest=report.to_dict(), settings=kept)
    return report


def kept_settings(folder: str | PathLike[str]) -> IngestSettings:
    """Names of columns and the like with which a folder was made, for tables that join it.

    Raises:
        InputError: If it is no folder of clicks, or its manifest is damaged.
    """
    facts = read_manifest(Path(folder)).get("settings", {})
    try:
        expect_fields(IngestSettings, facts, "settings")
        found: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in facts.items()
        }
        return IngestSettings(**found)
    except ValueError as error:
        raise InputError(
            f"Expected settings as `drgcn recommend ingest` wrote them in {folder}; found "
            f"otherwise ({error}). Make it again."
        ) from None


def append(
    clicks: Paths,
    folder: str | PathLike[str],
    *,
    users: Paths | None = None,
    items: Paths | None = None,
    settings: IngestSettings | None = None,
) -> AppendReport:
    """Add clicks, and with them users, items and attributes, to a folder of clicks.

    Users and items keep their numbers, categories their codes; new ones come after them. Days are
    counted from the same day 0. The folder is what it was until all is written, and then changes
    at once; who has it open keeps what he opened.

    Args:
        clicks: Parquet or CSV with a row per event, as for :func:`ingest`.
        folder: The folder.
        users: Attributes of new users, or new attributes of others. (default: none)
        items: Likewise.
        settings: Names of columns and the like. (default: those of the folder, whose rating also
            holds where none is given)

    Raises:
        InputError: If a table cannot be used, or does not go with the folder.
    """
    folder = Path(folder)
    facts = read_manifest(folder)
    kept = kept_settings(folder)
    asked = settings or kept
    try:
        with (
            lock(folder.parent / f".{folder.name}.append", 0),
            replacing_folder(folder) as partial,
        ):
            before, made = ClickData.load(folder), _as_made(facts, folder)
            settings = _settings_as_before(before, made, asked)
            # Days that no ingest made are numbers, unless the caller knows the date of day 0.
            counted = made.get("time_unit", "second" if settings.day_zero else "day") == "day"
            tables = (users, items)
            with duckdb_session(partial / "work", settings.memory, settings.threads) as session:
                opened = _open(session, clicks, *tables, settings, kept)
                report = _append(session, before, opened, settings, partial, counted)
            data = ClickData.open_parts(partial, before.name)
            step = {"before": before.content_hash, **report.to_dict()}
            more = {name: facts[name] for name in ("ingest", "settings") if name in facts}
            write_manifest(data, partial, **more, appended=[*facts.get("appended", []), step])
    except LockedError:
        raise InputError(
            f"Expected nobody else to add to {folder}; another process does. Wait for it."
        ) from None
    return report


def _as_made(facts: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return what a manifest says of the ingest that made a folder, with what was left out."""
    made = facts.get("ingest") or {}
    try:
        expect_types({"appended": list[dict[str, Any]]}, facts, "it")
        expect_object(made, "its ingest")
        left_out = made.get("left_out") or {}
        expect_types({"day_zero": str, "time_unit": str}, made, "its ingest")
        expect_fields(LeftOut, left_out, "its left_out")
        if made.get("day_zero"):
            date.fromisoformat(made["day_zero"])
    except ValueError as error:
        raise InputError(
            f"Expected an account as `drgcn recommend ingest` wrote it in {folder}; found "
            f"otherwise ({error}). Make it again."
        ) from None
    return {**made, "left_out": asdict(LeftOut(**left_out))}


def _settings_as_before(
    before: ClickData, facts: dict[str, Any], settings: IngestSettings
) -> IngestSettings:
    """Settings with the day 0 and the rating of a folder; refuses a folder that cannot grow."""
    left_out = facts["left_out"]
    if before.parts or left_out.get("core") or settings.core:
        raise InputError(
            f"Expected clicks that others may join; found "
            f"{'an official split' if before.parts else 'a k-core'}, which they would break. "
            f"Ingest all of them into a new folder."
        )
    if (before.graph.days is None) != (settings.time is None):
        timed = "no times. Say --no-time" if settings.time else "times. Name their column (--time)"
        raise InputError(f"Expected clicks as those of the folder, which have {timed}.")
    if settings.day_zero is None and facts.get("day_zero"):
        settings = replace(settings, day_zero=date.fromisoformat(facts["day_zero"]))
    if settings.rating is None and left_out.get("rating"):
        rating = {key: left_out[key] for key in ("rating", "min_rating")}
        settings = replace(settings, **rating)
    return settings


def _append(
    session: DuckDBSession,
    before: ClickData,
    opened: tuple[SourceTable, Attributes, LeftOut],
    settings: IngestSettings,
    folder: Path,
    counted: bool,
) -> AppendReport:
    events, tables, left_out = opened
    graph = before.graph
    sides = {
        "user": (graph.num_users, before.user_ids, before.users),
        "item": (graph.num_items, before.item_ids, before.items),
    }
    maps = {}
    for side, (count, ids, known) in sides.items():
        if tables[side] is not None and known is None:
            raise InputError(
                f"Expected no attributes of {side}s, for the folder has none; found --{side}s. "
                f"Ingest all into a new folder."
            )
        maps[side] = _number(session, side, events, tables[side], settings, _ids(ids, count))
    days = EventDays.read(session, events, settings) if settings.time is not None else None
    if days is not None and (days.unit == "day") != counted:
        there = "counted as they came" if counted else "those of dates"
        raise InputError(
            f"Expected days that are {there}, as in the folder; found times read as {days.unit}. "
            f"Say --time-unit, or --day-zero, the date of its day 0."
        )
    _register_clicks(session, graph)
    sql = _numbered_events(events, maps, days, settings)
    pairs = write_clicks(
        session.batches(_in_order(f"{sql} UNION ALL SELECT * FROM clicks_before", days)),
        folder,
        maps["user"].count,
        maps["item"].count,
        with_days=days is not None,
    )
    updated: dict[str, int] = {}
    new_values: list[str] = []
    for side, (count, _, known) in sides.items():
        maps[side].write(session, folder / f"{side}_ids.parquet")
        own, changed = tables[side], 0
        if known is not None:
            table, key = own or (None, "")
            if table is not None:
                refuse_repeated(session, table, key, maps[side])
            target = folder / f"{side}s"
            columns = write_attributes(session, table, key, maps[side], target, settings, known)
            names = (*known.numeric_names, *known.category_names)
            new_values += [name for name, _ in columns if name not in names]
        if own is not None:
            of_table = f"CAST({quoted(own[1])} AS {maps[side].kind})"
            (changed,) = session.row(
                f"SELECT count(*) FROM {own[0].name} t JOIN {maps[side].name} m "
                f"ON {of_table} = m.id WHERE m.code < {count}"
            )
        updated[side] = changed
    (count,) = session.row(f"SELECT count(*) FROM {events.name}")
    span = None
    if days is not None:
        first, last = graph.day_range if graph.num_clicks else (days.first, days.last)
        span = (min(first, days.first), max(last, days.last))
    return AppendReport(
        count,
        pairs - graph.num_clicks,
        maps["user"].count - graph.num_users,
        maps["item"].count - graph.num_items,
        updated["user"],
        updated["item"],
        span,
        tuple(new_values),
        left_out,
    )


def _ids(ids: Any | None, count: int) -> Any:
    import pyarrow as pa

    return pa.array(np.arange(count)) if ids is None else ids


def _register_clicks(session: DuckDBSession, graph: ClickGraph) -> None:
    """Make the clicks of a folder a table, in pieces."""
    import pyarrow as pa

    kinds = {"u": pa.int64(), "i": pa.int64(), **({} if graph.days is None else {"d": pa.int16()})}
    schema = pa.schema(kinds)

    def batches() -> Iterator[Any]:
        begin = 0
        for rows, cols in entries(graph.by_user):
            end = begin + len(cols)
            days = [] if graph.days is None else [graph.days[begin:end].numpy()]
            parts = [pa.array(part) for part in (rows.numpy(), cols.numpy(), *days)]
            yield pa.record_batch(parts, schema=schema)
            begin = end

    session.connection.register("pieces", pa.RecordBatchReader.from_batches(schema, batches()))
    session.execute("CREATE TABLE clicks_before AS SELECT * FROM pieces")


def _open(
    session: DuckDBSession,
    clicks: Paths,
    users: Paths | None,
    items: Paths | None,
    settings: IngestSettings,
    kept: IngestSettings | None = None,
) -> tuple[SourceTable, Attributes, LeftOut]:
    """The tables without the rows that the settings leave out.

    Attributes that kept settings name may be missing, as when no items join.
    """
    events = SourceTable.open(session, clicks, "events")
    for role in _ROLES:
        if (column := getattr(settings, role)) is not None:
            events.require(column, f"--{role}")
    tables: Attributes = {}
    for side, paths in (("user", users), ("item", items)):
        tables[side] = None
        if paths is not None:
            table = SourceTable.open(session, paths, f"{side}_attributes", settings.missing)
            key = getattr(settings, f"{side}_key") or getattr(settings, side)
            table.require(key, f"--{side}-key")
            tables[side] = (table, key)
    _expect_attributes(tables, settings, kept)
    left_out = LeftOut()
    if settings.rating is not None or settings.core:
        for column in (settings.user, settings.item):
            check_ids(session, events, column)  # of all rows, also those that are left out
    if settings.rating is not None:
        events, left_out = keep_rated(session, events, settings)
    if settings.core:
        events, left_out = keep_core(session, events, tables, settings, left_out)
    return events, tables, left_out


def _number(
    session: DuckDBSession,
    side: str,
    events: SourceTable,
    own: tuple[SourceTable, str] | None,
    settings: IngestSettings,
    known: Any | None = None,
) -> IdMap:
    sources = [(events, getattr(settings, side)), *([] if own is None else [own])]
    return IdMap.number(session, f"{side}_map", sources, known)


def _ingest(
    session: DuckDBSession,
    clicks: Paths,
    users: Paths | None,
    items: Paths | None,
    settings: IngestSettings,
    folder: Path,
) -> IngestReport:
    events, tables, left_out = _open(session, clicks, users, items, settings)
    maps = {side: _number(session, side, events, own, settings) for side, own in tables.items()}
    days = EventDays.read(session, events, settings) if settings.time is not None else None
    pairs = write_clicks(
        session.batches(_in_order(_numbered_events(events, maps, days, settings), days)),
        folder,
        maps["user"].count,
        maps["item"].count,
        with_days=days is not None,
    )
    user_side, item_side = (
        _side(session, side, tables[side], maps[side], folder, settings) for side in maps
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
        left_out=left_out,
    )


def _expect_attributes(
    tables: Attributes, settings: IngestSettings, kept: IngestSettings | None
) -> None:
    """Refuse options for attributes that no table has: a misspelt name would go unseen."""
    known = [
        column
        for own in tables.values()
        if own is not None
        for column in own[0].columns
        if column != own[1]
    ]
    for option in ("numeric", "category", "several", "ignore"):
        allowed = (*known, *(getattr(kept, option) if kept else ()))
        if unknown := [name for name in getattr(settings, option) if name not in allowed]:
            raise InputError(
                f"Expected --{option} to name an attribute of "
                f"{', '.join(map(repr, known)) or 'users or items, but no table has any'}; found "
                f"{unknown[0]!r}."
            )


def _numbered_events(
    events: SourceTable, maps: dict[str, IdMap], days: EventDays | None, settings: IngestSettings
) -> str:
    user = f"CAST({quoted(settings.user)} AS {maps['user'].kind})"
    item = f"CAST({quoted(settings.item)} AS {maps['item'].kind})"
    day = f", CAST({days.sql} AS SMALLINT) AS d" if days is not None else ""
    return (
        f"SELECT u.code AS u, i.code AS i{', e.d' if day else ''} "
        f"FROM (SELECT {user} AS user_id, {item} AS item_id{day} "
        f"FROM {events.name}) e JOIN {maps['user'].name} u ON e.user_id = u.id "
        f"JOIN {maps['item'].name} i ON e.item_id = i.id"
    )


def _in_order(sql: str, days: EventDays | None) -> str:
    return f"{sql} ORDER BY {'1, 2' if days is None else '1, 2, 3'}"


def _side(
    session: DuckDBSession,
    side: str,
    own: tuple[SourceTable, str] | None,
    ids: IdMap,
    folder: Path,
    settings: IngestSettings,
) -> SideReport:
    ids.write(session, folder / f"{side}_ids.parquet")
    if own is None:
        return SideReport(f"{side}s", ids.count)
    table, key = own
    known = f"(SELECT CAST({quoted(key)} AS {ids.kind}) AS id FROM {table.name})"
    clicks_of = load_tensor(folder / f"by_{side}" / "rowptr.npy").diff()
    bare, example = session.row(
        f"SELECT count(*), CAST(arg_min(m.id, m.code) AS VARCHAR) FROM {ids.name} m "
        f"ANTI JOIN {known} k ON m.id = k.id"
    )
    (rows,) = session.row(f"SELECT count(*) FROM {table.name}")
    if rows > ids.count - bare:
        refuse_repeated(session, table, key, ids)
    target = folder / f"{side}s"
    columns = write_attributes(session, table, key, ids, target, settings, missing=bare > 0)
    several = tuple(
        (name, sum(column.startswith(f"{name}: ") for column, _ in columns))
        for name in settings.several
        if name in table.columns
    )
    cold = int((clicks_of == 0).sum())
    return SideReport(f"{side}s", ids.count, cold, bare, example or "", columns, several)
