"""``drgcn recommend evaluate``: how good the lists of a run are."""

from __future__ import annotations

import json as jsonlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn._io import write_whole
from drgcn.cli.options import Device, Json, Threads, expect_file, use_device, use_threads

if TYPE_CHECKING:
    from drgcn.recommend.retrieval.evaluation import RankingReport


Run = Annotated[Path, typer.Argument(help="Folder of a finished run.")]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder of its clicks.", show_default="where they were at training"),
]
_MEASURES = ("recall", "hit rate", "NDCG")


def evaluate(
    run: Run,
    data: Data = None,
    n: Annotated[int, typer.Option(min=1, help="Length of the lists.")] = 50,
    exclude_seen: Annotated[
        bool,
        typer.Option("--exclude-seen/--keep-seen", help="Leave out what a user has clicked."),
    ] = False,
    day: Annotated[
        int | None,
        typer.Option(
            help="Find the clicks of this day from those before.", show_default="the day held back"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File of the record.", show_default="in the run's folder")
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Rank all items for every user who clicked on the day, and count what was found.

    Recall, hit rate and NDCG with 95 % intervals over users; users with clicks before (warm) and
    without (cold) apart; popular and random lists beside. A record is written as JSON.

    Example: drgcn recommend evaluate run --n 50
    """
    import torch

    from drgcn.recommend.retrieval import evaluate as ranked
    from drgcn.recommend.serving import LoadedRun, model_hash
    from drgcn.records import environment

    use_threads(threads)
    where = use_device(device)
    expect_file(out or run / "evaluation.json")
    start = time.perf_counter()
    loaded = LoadedRun.open(run, data)
    split = loaded.split(day)
    begin = time.perf_counter()
    users, items = loaded.vectors(split.train, where)
    embedded = time.perf_counter()
    if n > len(items):
        print(f"--n {n:,} is more than there are items: lists of {len(items):,}", file=sys.stderr)
        n = len(items)
    report = ranked(users, items, split, n, exclude_seen=exclude_seen)
    end = time.perf_counter()
    found = torch.unique(split.targets.by_user.col)
    unseen = int((split.train.by_item.degree[found.long()] == 0).sum())
    record: dict[str, Any] = {
        "format": "drgcn recommend evaluation",
        "split": split.name,
        **report.to_dict(),
        "unseen_target_items": unseen,
        "model_sha256": model_hash(loaded.model),
        "training": loaded.training,
        "data": {"name": loaded.data.name, "content_hash": loaded.data.content_hash},
        "seconds": {"load": begin - start, "embed": embedded - begin, "rank": end - embedded},
        "environment": environment(where),
    }
    seen = "exclude-seen" if exclude_seen else "keep-seen"
    name = f"evaluation-{split.name.split(' from')[0].replace(' ', '-')}-top-{n}-{seen}.json"
    path = out or run / name
    write_whole(path, jsonlib.dumps(record, indent=1) + "\n")
    if json:
        print(jsonlib.dumps(record))
        return
    print(
        f"{split.name}, {report.num_items:,} items ranked, {seen.replace('-', ' ')}; in % with "
        f"95 % intervals over users"
    )
    _show(report)
    if unseen:
        print(f"{unseen:,} of {found.numel():,} items to be found have no click before")
    print(f"written to {path}")


def _show(report: RankingReport) -> None:
    from rich.console import Console

    from drgcn.reporting.tables import Table

    lists = (
        ("model", report.model, True),
        ("popular", report.popularity, True),
        ("random", report.chance, False),
    )
    rows = []
    for group in ("all", "warm", "cold"):
        number = report.model[group]["recall"].users
        if not number:
            continue
        for words, values, ranged in lists:
            cells = [
                f"{100 * value.mean:.4g}"
                # The spread of one user is not known.
                + (f" ± {100 * (value.high - value.mean):.2g}" if ranged and number > 1 else "")
                for value in values[group].values()
            ]
            rows.append([f"{group}: {number:,}" if words == "model" else "", words, *cells])
    heads = ["users", "lists", *(f"{measure}@{report.n}" for measure in _MEASURES)]
    table = Table(heads, rows, left=2).rich(wrap=False)
    for last in range(len(lists) - 1, len(rows), len(lists)):
        table.rows[last].end_section = True
    Console().print(table)
