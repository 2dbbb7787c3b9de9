"""Tables of clicks and attributes into a folder of clicks."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_data import ClickData, write_manifest
from drgcn.recommend.clicks.ingesting.attribute_writer import write_attributes
from drgcn.recommend.clicks.ingesting.click_writer import write_clicks
from drgcn.recommend.clicks.ingesting.event_days import EventDays
from drgcn.recommend.clicks.ingesting.id_map import IdMap
from drgcn.recommend.clicks.ingesting.report import IngestReport, SideReport
from drgcn.recommend.clicks.ingesting.settings import IngestSettings
from drgcn.recommend.clicks.ingesting.source_table import Paths, SourceTable, quoted
from drgcn.recommend.clicks.ingesting.workshop import Workshop, open_workshop
from drgcn.recommend.clicks.whole_folder import whole_folder

_OPTIONS = {"user": "--user", "item": "--item", "time": "--time"}


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
        with open_workshop(partial / "work", settings.memory, settings.threads) as shop:
            report = _ingest(shop, clicks, users, items, settings, partial)
        data = ClickData.open_parts(partial, name or Path(folder).name)
        write_manifest(data, partial, ingest=report.to_dict())
    return report


def _ingest(
    shop: Workshop,
    clicks: Paths,
    users: Paths | None,
    items: Paths | None,
    settings: IngestSettings,
    folder: Path,
) -> IngestReport:
    events = SourceTable.open(shop, clicks, "events")
    for role in ("user", "item", "time"):
        if (column := getattr(settings, role)) is not None:
            events.require(column, _OPTIONS[role])
    tables: dict[str, tuple[SourceTable, str] | None] = {}
    maps: dict[str, IdMap] = {}
    for side, paths in (("user", users), ("item", items)):
        tables[side] = None
        if paths is not None:
            table = SourceTable.open(shop, paths, f"{side}_attributes", settings.missing)
            key = getattr(settings, f"{side}_key") or getattr(settings, side)
            table.require(key, f"--{side}-key")
            tables[side] = (table, key)
        own = tables[side]
        sources = [(events, getattr(settings, side)), *([] if own is None else [own])]
        maps[side] = IdMap.number(shop, f"{side}_map", sources)
    _expect_attributes(tables, settings)
    days = EventDays.read(shop, events, settings) if settings.time is not None else None
    pairs = write_clicks(
        shop.batches(_sorted_events(events, maps, days, settings)),
        folder,
        maps["user"].count,
        maps["item"].count,
        with_days=days is not None,
    )
    user_side, item_side = (
        _side(shop, side, events, tables[side], maps[side], folder, settings) for side in maps
    )
    (count,) = shop.row(f"SELECT count(*) FROM {events.name}")
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
    """Refuses options for attributes that no table has: a slip of the pen would go unseen."""
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
    shop: Workshop,
    side: str,
    events: SourceTable,
    own: tuple[SourceTable, str] | None,
    ids: IdMap,
    folder: Path,
    settings: IngestSettings,
) -> SideReport:
    ids.write(shop, folder / f"{side}_ids.parquet")
    if own is None:
        return SideReport(f"{side}s", ids.count)
    table, key = own
    columns = write_attributes(shop, table, key, ids, folder / f"{side}s", settings)
    of_events = f"CAST({quoted(getattr(settings, side))} AS {ids.kind})"
    of_table = f"CAST({quoted(key)} AS {ids.kind})"
    clicked = f"(SELECT DISTINCT {of_events} AS id FROM {events.name})"
    known = f"(SELECT {of_table} AS id FROM {table.name})"
    (with_clicks,) = shop.row(f"SELECT count(*) FROM {clicked}")
    bare, example = shop.row(
        f"SELECT count(*), CAST(arg_min(m.id, m.code) AS VARCHAR) FROM {ids.name} m "
        f"ANTI JOIN {known} k ON m.id = k.id"
    )
    return SideReport(f"{side}s", ids.count, ids.count - with_clicks, bare, example or "", columns)
