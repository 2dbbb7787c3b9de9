"""``drgcn recommend generate``: synthetic clicks of any size."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from drgcn.cli.options import Device, Json, Threads, expect_new_folder, use_device, use_threads


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
) -> None:
    """Draw clicks and attributes that have the sizes of a published graph, and are synthetic.

    The same fraction and seed give the same bits on every machine; docs/astar.md says how they
    are drawn and what is not realistic about them.

    Example: drgcn recommend generate --fraction 0.01 --out clicks
    """
    from drgcn.recommend.synthetic import checksum, generate_astar
    from drgcn.recommend.synthetic.astar import write_tables

    expect_new_folder(out)
    use_threads(threads)
    data = generate_astar(fraction, seed, use_device(device))
    sum_ = checksum(data)
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
