"""``drgcn recommend export`` and ``query``: a run as vectors and index, and lists from it."""

from __future__ import annotations

import csv
import json as jsonlib
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn.cli.options import (
    Device,
    Json,
    ProgressLine,
    Quiet,
    Threads,
    expect_file,
    expect_new_folder,
    use_device,
    use_threads,
)
from drgcn.cli.recommend.evaluate import Data, Run
from drgcn.errors import InputError

if TYPE_CHECKING:
    from drgcn.recommend.serving import ExportFolder, Recommender, Visitors

_USERS = 1 << 14  # searched at a time
_SHOWN = 1000  # lists on the screen at most
_index = partial(typer.Option, rich_help_panel="The index")
_visitor = partial(typer.Option, rich_help_panel="A visitor who is not in the data")
_rules = partial(typer.Option, rich_help_panel="Rules")


def export(
    run: Run,
    out: Annotated[Path, typer.Option(help="A new folder.", show_default=False)],
    data: Data = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Take the place of an export in --out, in one step: a server of it goes on.",
        ),
    ] = False,
    day: Annotated[
        int | None,
        typer.Option(
            help="Use the clicks before this day alone.",
            show_default="all, those of the day held back too",
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="Vectors as float32 or float16.")] = "float32",
    no_seen: Annotated[
        bool, typer.Option("--no-seen", help="Leave the clicks out: saves room.")
    ] = False,
    index: Annotated[
        str, _index(help="auto (flat up to 200,000 items, else ivf), flat, ivf, hnsw or none.")
    ] = "auto",
    recall: Annotated[float, _index(help="Share of the exact lists to find.")] = 0.99,
    n: Annotated[int, _index(min=1, help="Length of the lists it is tuned by.")] = 50,
    seed: Annotated[int, _index(min=0, help="Seed.")] = 0,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Embed all users and items and write what serving needs, whole or not at all.

    users.parquet and items.parquet (id, vector), items.npy, index.faiss, the clicks and the model,
    and manifest.json with hashes of all of them and the recall that the index was measured at.

    Example: drgcn recommend export run --out export
    """
    from drgcn.recommend.retrieval.index import RecallTuning
    from drgcn.recommend.serving import ExportSettings, LoadedRun
    from drgcn.recommend.serving import export as write_export
    from drgcn.records import environment

    use_threads(threads)
    where = use_device(device)
    settings = ExportSettings(
        index=index, recall=recall, n=n, dtype=dtype, before=day, seen=not no_seen, seed=seed
    )
    if not replace:
        expect_new_folder(out)
    start = time.perf_counter()
    with ProgressLine("embedding and indexing", quiet) as line:
        line.show()
        loaded = LoadedRun.open(run, data)
        about = environment(where)
        manifest = write_export(
            loaded, out, settings, device=where, environment=about, replacing=replace
        )
    if json:
        sizes = {"users": manifest.users["count"], "items": manifest.items["count"]}
        facts = {"folder": str(out), **sizes, "dim": manifest.dim, "index": manifest.index}
        print(jsonlib.dumps({**facts, "seconds": time.perf_counter() - start}))
        return
    print(
        f"{manifest.users['count']:,} users and {manifest.items['count']:,} items, vectors of "
        f"{manifest.dim} columns as {manifest.dtype}"
    )
    if manifest.index is not None:
        print(f"index {RecallTuning(**manifest.index['tuning'])}")
    print(f"written to {out}")


def query(
    export: Annotated[Path, typer.Argument(help="Folder of an export.")],
    users: Annotated[
        Path | None, typer.Option(help="Ids of users in a .parquet, .csv or .tsv file.")
    ] = None,
    user: Annotated[list[str] | None, typer.Option(help="An id; may repeat.")] = None,
    all_users: Annotated[bool, typer.Option("--all-users", help="Everybody.")] = False,
    column: Annotated[
        str | None,
        typer.Option(help="Column of --users.", show_default="user, id, or the only one"),
    ] = None,
    clicked: Annotated[
        list[str] | None, _visitor(help="Ids of items that a visitor clicked: a,b,c; may repeat.")
    ] = None,
    attribute: Annotated[
        list[str] | None, _visitor(help="An attribute of a visitor: name=value; may repeat.")
    ] = None,
    similar: Annotated[
        list[str] | None, typer.Option(help="Id of an item: list those like it; may repeat.")
    ] = None,
    why: Annotated[
        str | None, typer.Option(help="Id of an item: say which clicks of the user speak for it.")
    ] = None,
    allow: Annotated[
        list[str] | None, _rules(help="The only items to list: a,b,c; may repeat.")
    ] = None,
    deny: Annotated[list[str] | None, _rules(help="Items not to list: a,b,c; may repeat.")] = None,
    category: Annotated[
        list[str] | None,
        _rules(
            help="List items of a category: column=value. Of one column, any value that is given."
        ),
    ] = None,
    n: Annotated[int, typer.Option(min=1, help="Length of the lists.")] = 50,
    exclude_seen: Annotated[
        bool, typer.Option("--exclude-seen/--keep-seen", help="Leave out what a user has clicked.")
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Score all items, without the index.")
    ] = False,
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="Leave out and count ids that nobody knows.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="A .parquet or .csv file.", show_default="on the screen")
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a table of user, rank, item and score, with the ids of the data.

    Where nothing is known of a user, the list is that of the most clicked items, its scores are
    numbers of clicks, and the column fallback says yes.

    Example: drgcn recommend query export --user 17 --n 10

    Example: drgcn recommend query export --clicked 3,14,15 --deny 92 --category style=6
    """
    import pyarrow as pa
    import torch

    from drgcn.recommend.serving import ExportFolder, ItemRules, Recommender, Visitors
    from drgcn.recommend.serving.ids import known_rows, list_table, list_writer, read_ids

    is_visitor = bool(clicked or attribute)
    if (users is not None) + bool(user) + all_users + is_visitor + bool(similar) != 1:
        raise InputError(
            "Expected one of --users, --user, --all-users, --similar, and --clicked or "
            "--attribute or both."
        )
    if why is not None and not (is_visitor or len(user or ()) == 1):
        raise InputError("Expected one --user, or --clicked or --attribute, with --why.")
    if why is not None and (out is not None or allow or deny or category):
        raise InputError("Expected --why without --out, --allow, --deny and --category.")
    if exclude_seen and (similar or (attribute and not clicked)):
        raise InputError("Expected --exclude-seen with users, or with what a visitor clicked.")
    if out is None and all_users:
        raise InputError("Expected --out for the lists of all users.")
    if out is not None:
        expect_file(out)
    use_threads(threads)
    folder = ExportFolder(export)
    recommender = Recommender(folder, use_device(device) if exact else "cpu")
    start = time.perf_counter()
    option = "--skip-unknown"

    def item_rows(ids: list[str]) -> tuple[torch.Tensor, int]:
        return known_rows(folder.item_lookup, ids, skip_unknown, option, "items")

    rules = ItemRules(_ids(allow) if allow else None, _ids(deny), _pairs("--category", category))
    among, unknown = rules.rows(folder, skip_unknown, option)
    more, visitors, owners = 0, None, folder.user_lookup
    if all_users:
        rows = torch.arange(folder.num_users)
    elif similar:
        (rows, more), owners = item_rows(similar), folder.item_lookup
    elif is_visitor:
        items, more = item_rows(_ids(clicked))
        given = [_typed(folder, _pairs("--attribute", attribute))] if attribute else None
        visitors = Visitors([items] if clicked else None, given)
        rows = torch.zeros(1, dtype=torch.int64)
    else:
        ids = read_ids(users, column) if users is not None else list(user or ())
        rows, more = known_rows(folder.user_lookup, ids, skip_unknown, option)
    unknown += more
    if why is not None:
        asked, _ = known_rows(folder.item_lookup, [why], what="items")
        if visitors is None and not len(rows):
            raise InputError(f"Expected a --user that the export knows; found {user}.")
        _explain(recommender, int(asked), visitors or int(rows), json)
        return
    settings = {"n": n, "exclude_seen": exclude_seen, "exact": exact}

    def table_of(some: torch.Tensor) -> Any:
        if similar:
            top = recommender.similar(some, n, exact=exact, among=among)
            return list_table(owners.ids(some.numpy()), folder.item_lookup, top, "item")
        options: dict[str, Any] = {"exclude_seen": exclude_seen, "exact": exact, "among": among}
        if visitors is not None:
            lists = recommender.for_visitors(visitors, n, **options)
            return list_table(pa.nulls(1, pa.large_string()), folder.item_lookup, lists)
        lists = recommender.for_users(some, n, **options)
        return list_table(owners.ids(some.numpy()), folder.item_lookup, lists)

    if out is None:
        if len(rows) > _SHOWN:
            raise InputError(f"Expected --out for more than {_SHOWN} users; found {len(rows):,}.")
        _print_lists(table_of(rows), unknown, settings, json)
        return
    with list_writer(out) as writer, ProgressLine("searching", quiet) as line:
        # An empty list of users still makes a table with columns.
        pieces = rows.split(_USERS) if len(rows) else (rows,)
        for number, some in enumerate(pieces):
            line.show(share=number / len(pieces))
            writer.add(table_of(some))
    facts = {"users": len(rows), "unknown": unknown, "rows": writer.rows}
    if json:
        seconds = time.perf_counter() - start
        print(jsonlib.dumps({**facts, "out": str(out), **settings, "seconds": seconds}))
        return
    print(f"{len(rows):,} lists, {writer.rows:,} rows; {unknown:,} unknown ids left out")
    print(f"written to {out}")


def _print_lists(table: Any, unknown: int, settings: dict[str, Any], json: bool) -> None:
    if json:
        print(jsonlib.dumps({"rows": table.to_pylist(), "unknown": unknown, **settings}))
        return
    print("\t".join(table.column_names))
    for row in table.to_pylist():
        print("\t".join(map(_shown, row.values())))
    if unknown:  # not among the rows, which another program may read
        print(f"{unknown:,} unknown ids left out", file=sys.stderr)


def _explain(recommender: Recommender, item: int, user: int | Visitors, json: bool) -> None:
    """Print the clicked items that speak for an item, with their parts of the score."""
    found = recommender.why(item, user)
    lookup = recommender.export.item_lookup
    ids = lookup.ids(found.clicked.numpy()).to_pylist()
    parts = dict(zip(ids, found.parts.tolist(), strict=True))
    if json:
        rows = [{"item": name, "part": part} for name, part in parts.items()]
        asked = lookup.array[item].as_py()
        facts = {"item": asked, "score": found.score, "clicked": rows, "rest": found.rest}
        print(jsonlib.dumps(facts | {"popularity": found.popularity}))
        return
    print("clicked\tpart")
    parts["(the user)"] = found.rest
    if recommender.export.manifest.popularity is not None:
        parts["(popularity)"] = found.popularity
    for name, part in {**parts, "(score)": found.score}.items():
        print(f"{name}\t{part:.6g}")


def _ids(lists: list[str] | None) -> list[str]:
    """Ids of lists that are written a,b,c; one with a comma stands in double quotes."""
    try:
        return [name for text in lists or () for name in next(csv.reader([text]), ()) if name]
    except csv.Error as error:
        raise InputError(f"Expected ids written a,b,c; found otherwise ({error}).") from None


def _pairs(option: str, texts: list[str] | None) -> dict[str, list[str]]:
    """Values by name of texts that are written name=value."""
    found: dict[str, list[str]] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"Expected {option} as name=value; found {text!r}.")
        found.setdefault(name, []).append(value)
    return found


def _typed(folder: ExportFolder, attributes: dict[str, list[str]]) -> dict[str, Any]:
    """Attributes with numbers where the model wants numbers."""
    found: dict[str, Any] = {}
    for name, values in attributes.items():
        if len(values) > 1:
            raise InputError(f"Expected one value of {name!r}; found {', '.join(values)}.")
        found[name] = values[0]
        if name in folder.cold_users.table.numeric_names:
            try:
                found[name] = float(values[0])
            except ValueError:
                raise InputError(f"Expected a number for {name!r}; found {values[0]!r}.") from None
    return found


def _shown(value: Any) -> str:
    """A value of a table on the screen."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
