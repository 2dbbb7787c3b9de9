"""``drgcn recommend export``: a run as vectors, index and manifest."""

from __future__ import annotations

import json as jsonlib
import time
from pathlib import Path
from typing import Annotated

import typer

from drgcn.cli.options import Device, Json, Threads, expect_new_folder, use_device, use_threads
from drgcn.cli.recommend.evaluate import Data, Run

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
