"""``drgcn recommend export`` and ``query``: a run as vectors and index, and lists from it."""

from __future__ import annotations

import json as jsonlib
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from drgcn.cli.options import (
    Device,
    Json,
    Threads,
    expect_file,
    expect_new_folder,
    use_device,
    use_threads,
)
from drgcn.cli.recommend.evaluate import Data, Run
from drgcn.errors import InputError

_USERS = 1 << 14  # searched at a time
_SHOWN = 1000  # lists on the screen at most
_INDEX = "The index"


def export(
    run: Run,
    out: Annotated[Path, typer.Option(help="A new folder.", show_default=False)],
    data: Data = None,
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
        str,
        typer.Option(
            help="auto (flat up to 200,000 items, else ivf), flat, ivf, hnsw or none.",
            rich_help_panel=_INDEX,
        ),
    ] = "auto",
    recall: Annotated[
        float,
        typer.Option(help="Share of the exact lists to find.", rich_help_panel=_INDEX),
    ] = 0.99,
    n: Annotated[
        int,
        typer.Option(min=1, help="Length of the lists it is tuned by.", rich_help_panel=_INDEX),
    ] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Seed.", rich_help_panel=_INDEX)] = 0,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
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
    expect_new_folder(out)
    start = time.perf_counter()
    loaded = LoadedRun.open(run, data)
    manifest = write_export(loaded, out, settings, device=where, environment=environment(where))
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
    n: Annotated[int, typer.Option(min=1, help="Length of the lists.")] = 50,
    exclude_seen: Annotated[
        bool,
        typer.Option("--exclude-seen/--keep-seen", help="Leave out what a user has clicked."),
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Score all items, without the index.")
    ] = False,
    skip_unknown: Annotated[
        bool, typer.Option("--skip-unknown", help="Leave out and count ids that nobody knows.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="A .parquet or .csv file.", show_default="on the screen"),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Write a table of user, rank, item and score, with the ids of the data.

    Example: drgcn recommend query export --user 17 --n 10
    """
    import torch
    from rich.console import Console
    from rich.progress import track

    from drgcn.recommend.serving import ExportFolder, Recommender
    from drgcn.recommend.serving.ids import known_rows, read_ids
    from drgcn.recommend.serving.recommender import list_table, list_writer

    if (users is not None) + bool(user) + all_users != 1:
        raise InputError("Expected one of --users, --user and --all-users.")
    if out is None and all_users:
        raise InputError("Expected --out for the lists of all users.")
    if out is not None:
        expect_file(out)
    use_threads(threads)
    folder = ExportFolder(export)
    recommender = Recommender(folder, use_device(device) if exact else "cpu")
    start = time.perf_counter()
    unknown = 0
    if all_users:
        rows = torch.arange(folder.num_users)
    else:
        ids = read_ids(users, column) if users is not None else list(user or ())
        rows, unknown = known_rows(folder.user_lookup, ids, skip_unknown, "--skip-unknown")
    settings = {"n": n, "exclude_seen": exclude_seen, "exact": exact}

    def table_of(some: torch.Tensor) -> object:
        top = recommender.for_users(some, n, exclude_seen=exclude_seen, exact=exact)
        return list_table(folder.user_lookup, folder.item_lookup, some, top)

    if out is None:
        if len(rows) > _SHOWN:
            raise InputError(f"Expected --out for more than {_SHOWN} users; found {len(rows):,}.")
        found = table_of(rows).to_pylist()  # type: ignore[attr-defined]
        if json:
            print(jsonlib.dumps({"rows": found, "unknown": unknown, **settings}))
            return
        print("user\trank\titem\tscore")
        for row in found:
            print(f"{row['user']}\t{row['rank']}\t{row['item']}\t{row['score']:.6g}")
        if unknown:  # not among the rows, which another program may read
            print(f"{unknown:,} unknown ids left out", file=sys.stderr)
        return
    console = Console(stderr=True)
    with list_writer(out) as writer:
        # An empty list of users still makes a table with columns.
        pieces = rows.split(_USERS) if len(rows) else (rows,)
        for some in track(pieces, "searching", console=console, disable=not console.is_terminal):
            writer.add(table_of(some))
    facts = {"users": len(rows), "unknown": unknown, "rows": writer.rows}
    if json:
        seconds = time.perf_counter() - start
        print(jsonlib.dumps({**facts, "out": str(out), **settings, "seconds": seconds}))
        return
    print(f"{len(rows):,} lists, {writer.rows:,} rows; {unknown:,} unknown ids left out")
    print(f"written to {out}")
