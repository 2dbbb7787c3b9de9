"""``drgcn recommend generate``, ``ingest`` and ``info``: folders of clicks."""

from __future__ import annotations

import json as jsonlib
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn.cli.options import (
    DataRoot,
    Device,
    Json,
    ProgressLine,
    Quiet,
    Threads,
    expect_new_folder,
    use_device,
    use_threads,
)
from drgcn.errors import InputError

if TYPE_CHECKING:
    from drgcn.recommend.clicks.ingest import AppendReport, IngestReport

_tables = partial(typer.Option, rich_help_panel="Columns of the tables")
_filter = partial(typer.Option, rich_help_panel="Clicks to leave out")
_work = partial(typer.Option, rich_help_panel="The work")

Sources = Annotated[
    list[str],
    typer.Argument(
        help="Parquet or CSV with a row per click (files, or a folder of parts); or a folder with "
        "train.txt and test.txt of lines `user item item ...`; or a known set's name.",
        show_default=False,
    ),
]


def generate(
    out: Annotated[Path, typer.Option(help="A new folder.", show_default=False)],
    fraction: Annotated[
        float, typer.Option(help="Share of 35.2 M users, 6.3 M items and 129.8 M clicks.")
    ] = 0.01,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    tables: Annotated[
        bool,
        typer.Option("--tables", help="Write parquet tables instead, as `ingest` reads them."),
    ] = False,
    device: Device = "cpu",
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw clicks and attributes that have the sizes of a published graph, and are synthetic.

    The same fraction and seed give the same bits on every machine; docs/recommend_inside.md says
    how they are drawn and what is not realistic about them.

    Example: drgcn recommend generate --fraction 0.01 --out clicks
    """
    from drgcn.recommend.synthetic import checksum, generate_astar
    from drgcn.recommend.synthetic.astar import write_tables

    expect_new_folder(out)
    use_threads(threads)
    with ProgressLine("drawing clicks", quiet) as line:
        line.show()
        data = generate_astar(fraction, seed, use_device(device))
        sum_ = checksum(data)
        line.show(what="writing")
        if tables:
            write_tables(data, out)
        else:
            data.save(out)
    graph = data.graph
    if json:
        sizes = {"users": graph.num_users, "items": graph.num_items, "clicks": graph.num_clicks}
        print(jsonlib.dumps({"name": data.name, **sizes, "checksum": sum_, "folder": str(out)}))
        return
    print(
        f"{graph.num_clicks:,} synthetic clicks of {graph.num_users:,} users on "
        f"{graph.num_items:,} items, checksum {sum_}"
    )
    print(f"written to {out}")


def ingest(
    context: typer.Context,
    clicks: Sources,
    out: Annotated[
        Path,
        typer.Option(help="A new folder; with --append the one to add to.", show_default=False),
    ],
    append: Annotated[
        bool,
        typer.Option(
            "--append",
            help="Add to the clicks in --out: its users and items keep their numbers, and columns "
            "have the names that they had.",
        ),
    ] = False,
    users: Annotated[Path | None, typer.Option(help="Table with a row per user.")] = None,
    items: Annotated[Path | None, typer.Option(help="Table with a row per item.")] = None,
    user: Annotated[str, _tables(help="Users.")] = "user",
    item: Annotated[str, _tables(help="Items.")] = "item",
    time: Annotated[str, _tables(help="Times.")] = "time",
    no_time: Annotated[bool, _tables("--no-time", help="Clicks have no times.")] = False,
    user_key: Annotated[str | None, _tables(help="Ids in --users.", show_default="--user")] = None,
    item_key: Annotated[str | None, _tables(help="Ids in --items.", show_default="--item")] = None,
    time_unit: Annotated[
        str,
        _tables(help="What times count: day, second, millisecond, microsecond, nanosecond, date."),
    ] = "auto",
    day_zero: Annotated[
        datetime | None,
        _tables(
            formats=["%Y-%m-%d"], help="The day called 0.", show_default="that of the first click"
        ),
    ] = None,
    numeric: Annotated[
        list[str] | None, _tables(help="An attribute that is a number; may repeat.")
    ] = None,
    category: Annotated[
        list[str] | None, _tables(help="An attribute that is a category; may repeat.")
    ] = None,
    several: Annotated[
        list[str] | None,
        _tables(help="An attribute with several values, each a column; may repeat."),
    ] = None,
    separator: Annotated[str, _tables(help="What is between these values.")] = "|",
    ignore: Annotated[
        list[str] | None, _tables(help="An attribute to leave out; may repeat.")
    ] = None,
    rating: Annotated[str | None, _filter(help="Ratings, for --min-rating.")] = None,
    min_rating: Annotated[float | None, _filter(help="The least rating that is a click.")] = None,
    core: Annotated[
        int,
        _filter(
            min=0, help="Leave out users and items with fewer clicks, until each has so many."
        ),
    ] = 0,
    missing: Annotated[
        list[str] | None,
        _tables(help="A text in CSV attributes that means no value, besides the empty one."),
    ] = None,
    keep_unseen: Annotated[
        bool, typer.Option("--keep-unseen", help="Allow items that only test.txt has.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="The set's name.", show_default="the folder's")
    ] = None,
    memory: Annotated[
        str | None,
        _work(
            help="DuckDB's memory, such as 4GB; the rest goes to disk beside --out.",
            show_default="half of the machine's",
        ),
    ] = None,
    threads: Annotated[int | None, _work(min=1, help="Threads.", show_default="all")] = None,
    data_root: DataRoot = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Read clicks of any size, number users and items, and write a folder of arrays.

    Users and items are numbered by ascending id. A pair that was clicked more than once is kept
    once, on its first day.
    """
    from drgcn.recommend.clicks import IngestSettings
    from drgcn.recommend.clicks import append as append_tables
    from drgcn.recommend.clicks import ingest as ingest_tables
    from drgcn.recommend.clicks.ingest import kept_settings
    from drgcn.recommend.clicks.known_sets import KNOWN_SETS

    if not append:
        expect_new_folder(out)
    source = Path(clicks[0])
    if len(clicks) == 1 and (clicks[0] in KNOWN_SETS or (source / "train.txt").is_file()):
        if users is not None or items is not None:
            raise InputError(
                f"Expected no tables of attributes beside {clicks[0]}; found --users or --items."
            )
        if append or rating is not None or core or several:
            raise InputError(
                f"Expected a table for --append, --rating, --core and --several; found "
                f"{clicks[0]}, which is taken as it was published."
            )
        _ingest_whole(clicks[0], out, keep_unseen, name, data_root, json)
        return
    if len(clicks) == 1 and not source.exists() and not source.suffix:
        raise InputError(
            f"Expected a table, a folder or one of {', '.join(KNOWN_SETS)}; found {clicks[0]!r}."
        )
    options: dict[str, Any] = {
        "user": user,
        "item": item,
        "time": None if no_time else time,
        "user_key": user_key,
        "item_key": item_key,
        "time_unit": time_unit,
        "day_zero": None if day_zero is None else day_zero.date(),
        "numeric": tuple(numeric or ()),
        "category": tuple(category or ()),
        "ignore": tuple(ignore or ()),
        "several": tuple(several or ()),
        "separator": separator,
        "rating": rating,
        "min_rating": min_rating,
        "core": core,
        "missing": ("", *(missing or ())),
        "memory": memory,
        "threads": threads,
    }
    if append:
        said = {name: value for name, value in options.items() if _is_said(context, name)}
        if no_time:
            said["time"] = None
        settings = replace(kept_settings(out), **said)
    else:
        settings = IngestSettings(**options)
    report: IngestReport | AppendReport
    if append and name is not None:
        raise InputError("Expected no --name with --append: the folder keeps the one it has.")
    with ProgressLine("reading clicks", quiet) as line:
        line.show()
        tables = {"users": users, "items": items}
        if append:
            report = append_tables(clicks, out, **tables, settings=settings)
        else:
            report = ingest_tables(clicks, out, **tables, settings=settings, name=name)
    if json:
        print(jsonlib.dumps(report.to_dict()))
        return
    print("\n".join(report.lines()))
    print(f"written to {out}")


def _is_said(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _ingest_whole(
    source: str, out: Path, keep_unseen: bool, name: str | None, root: Path | None, json: bool
) -> None:
    """Sets that fit into memory: known ones, and files of lines."""
    from drgcn.recommend.clicks import load_clicks, read_text_folder
    from drgcn.recommend.clicks.known_sets import KNOWN_SETS

    if source in KNOWN_SETS:
        data = load_clicks(source, root)
    else:
        data = read_text_folder(source, keep_unseen=keep_unseen)
    data = replace(data, name=name or data.name)
    data.save(out)
    graph = data.graph
    if json:
        print(jsonlib.dumps(data.facts()))
        return
    print(f"{graph.num_clicks:,} clicks of {graph.num_users:,} users on {graph.num_items:,} items")
    print(f"written to {out}")


def info(
    clicks: Annotated[str, typer.Argument(help="A folder of clicks, or a known set's name.")],
    data_root: DataRoot = None,
    json: Json = False,
) -> None:
    """Load a set of clicks and say what is in it."""
    from rich.console import Console

    from drgcn.recommend.clicks import load_clicks
    from drgcn.recommend.clicks.data import summary
    from drgcn.reporting.tables import Table

    facts = summary(load_clicks(clicks, data_root))
    if json:
        print(jsonlib.dumps(facts))
        return
    rows = [
        (key.replace("_", " "), _shown(value))
        for key, value in facts.items()
        if value not in ("", None, [], {})
    ]
    Console().print(Table((), rows).rich())


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key.replace('_', ' ')}: {_shown(part)}" for key, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
