"""``drgcn recommend evaluate``: how good the lists of a run are."""

from __future__ import annotations

import json as jsonlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn._io import write_whole
from drgcn.cli.options import (
    Device,
    Json,
    ProgressLine,
    Quiet,
    Threads,
    expect_file,
    use_device,
    use_threads,
)

if TYPE_CHECKING:
    from drgcn.recommend.retrieval.baselines import BaselineScore
    from drgcn.recommend.retrieval.evaluation import RankingReport


Run = Annotated[Path, typer.Argument(help="Folder of a finished run.")]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder of its clicks.", show_default="where they were at training"),
]
# Three tables, so that a line fits a terminal.
_COLUMNS = (
    {"recall": "recall", "hit_rate": "hit rate", "ndcg": "NDCG"},
    {"mrr": "MRR", "precision": "precision", "map": "MAP"},
    {"novelty": "novelty in bits"},
)
_CLASSICAL = ("item-kNN", "EASE", "iALS")
_LATELY = "popular lately"  # where clicks have days


def evaluate(
    run: Run,
    data: Data = None,
    n: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Length of the lists; may repeat.", show_default="50"),
    ] = None,
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
    baselines: Annotated[
        bool,
        typer.Option(
            "--baselines",
            help="Also measure items popular lately, where clicks have days, and fit item-kNN, "
            "EASE and iALS.",
        ),
    ] = False,
    ease_gib: Annotated[
        float, typer.Option(min=0, help="GiB that EASE may take; it is left out above.")
    ] = 4.0,
    out: Annotated[
        Path | None, typer.Option(help="File of the record.", show_default="in the run's folder")
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Rank all items for every user who clicked on the day held back, and count what was found.

    Recall, hit rate, NDCG, MRR, precision, MAP and novelty with 95 % intervals over users, and
    coverage; users with clicks before (warm) and without (cold) apart; popular and random lists
    beside. A record is written as JSON.

    Example: drgcn recommend evaluate run --n 20 --n 50 --exclude-seen --baselines
    """
    import torch

    from drgcn.recommend.clicks.data import has_ages
    from drgcn.recommend.clicks.splits import hold_out
    from drgcn.recommend.retrieval.baselines import score_baselines
    from drgcn.recommend.retrieval.evaluation import evaluate_lengths
    from drgcn.recommend.serving import LoadedRun, model_hash
    from drgcn.recommend.serving.exporting import describes_users
    from drgcn.records import environment

    use_threads(threads)
    where = use_device(device)
    expect_file(out or run / "evaluation.json")
    start = time.perf_counter()
    loaded = LoadedRun.open(run, data)
    split = loaded.split(day)
    if split.warning:
        print(f"warning: {split.warning}", file=sys.stderr)
    begin = time.perf_counter()
    classical: list[BaselineScore] = []
    with ProgressLine("embedding users and items", quiet) as line:
        line.show()
        users, items = loaded.vectors(split.train, where)
        embedded = time.perf_counter()
        line.show(what="ranking all items")
        lengths = _lengths(n or [50], len(items))
        reports = evaluate_lengths(users, items, split, lengths, exclude_seen=exclude_seen)
        report = reports[lengths[0]]
        end = time.perf_counter()
        if baselines:
            line.show(f"fitting {', '.join(_CLASSICAL)}")
            classical = score_baselines(
                hold_out(split.train, by_time=not loaded.data.parts),
                split,
                lengths,
                exclude_seen=exclude_seen,
                names=((_LATELY,) if has_ages(loaded.data) else ()) + _CLASSICAL,
                memory=int(ease_gib * 2**30),
                data=loaded.data,
            )
    found = torch.unique(split.targets.by_user.col)
    unseen = int((split.train.by_item.degree[found.long()] == 0).sum())
    record: dict[str, Any] = {
        "format": "drgcn recommend evaluation",
        "split": split.name,
        **report.to_dict(),
        "other_lengths": {str(length): reports[length].to_dict() for length in lengths[1:]},
        "baselines": [score.to_dict() for score in classical],
        "unseen_target_items": unseen,
        "model_sha256": model_hash(loaded.model),
        "training": loaded.training,
        "data": {"name": loaded.data.name, "content_hash": loaded.data.content_hash},
        "seconds": {"load": begin - start, "embed": embedded - begin, "rank": end - embedded},
        "environment": environment(where),
    }
    seen = "exclude-seen" if exclude_seen else "keep-seen"
    tops = "-".join(map(str, lengths))
    name = f"evaluation-{split.name.split(' from')[0].replace(' ', '-')}-top-{tops}-{seen}.json"
    path = out or run / name
    write_whole(path, jsonlib.dumps(record, indent=1) + "\n")
    if json:
        print(jsonlib.dumps(record))
        return
    print(
        f"{split.name}, {report.num_items:,} items ranked, {seen.replace('-', ' ')}; in % with "
        f"95 % intervals over users"
    )
    for length in lengths:
        _show(reports[length], classical, length)
    print("\n".join(_differences(report, classical)))
    for score in classical:
        chosen = ", ".join(f"{key} {value:g}" for key, value in score.settings.items())
        print(score.refused or f"{score.name}: {chosen}, by validation ({score.seconds:.1f} s)")
    cold = report.model["cold"]["recall"].users
    if cold and not describes_users(loaded.model, loaded.data):
        print(
            f"cold: nothing has trained the vectors of users without clicks ({cold:,} of the "
            f"{report.model['all']['recall'].users:,}); `query` and `serve` give them the popular "
            f"items instead"
        )
    if unseen:
        print(f"{unseen:,} of {found.numel():,} items to be found have no click before")
    print(f"written to {path}")


def _lengths(asked: list[int], items: int) -> list[int]:
    """Lengths of lists without repetition, none longer than there are items."""
    for n in asked:
        if n > items:
            print(f"--n {n:,} is more than there are items: lists of {items:,}", file=sys.stderr)
    return list(dict.fromkeys(min(n, items) for n in asked))


def _differences(report: RankingReport, classical: list[BaselineScore]) -> Iterator[str]:
    """Say by how much the model is above each other list, paired by user, and above which not."""
    others = {"popular": report.popularity_values}
    others |= {one.name: one.lists[report.n].values for one in classical if not one.refused}
    found = {
        name: report.values.less(values) for name, values in others.items() if values is not None
    }
    words = []
    for name, over in found.items():
        reach = f" [{100 * over.low:+.2f}, {100 * over.high:+.2f}]" if over.users > 1 else ""
        words.append(f"{name} {100 * over.mean:+.2f}{reach}")
    yield f"recall@{report.n} of the model over that of {', '.join(words)} (points, by user)"
    if below := [name for name, over in found.items() if over.mean < 0]:
        yield f"the model is below {', '.join(below)}: try other settings of train"


def _show(report: RankingReport, classical: list[BaselineScore], n: int) -> None:
    from rich.console import Console

    from drgcn.reporting.tables import Table

    lists = [("model", report.model), ("popular", report.popularity)]
    coverage = dict(report.coverage) | {"popular": report.coverage["popularity"]}
    for score in classical:
        if not score.refused:
            lists.append((score.name, score.lists[n].values.estimates()))
            coverage[score.name] = score.lists[n].coverage
    lists.append(("random", report.chance))
    for columns in _COLUMNS:
        covered = "novelty" in columns
        heads = ["users", "lists", *(f"{word}@{report.n}" for word in columns.values())]
        rows = []
        for group in ("all", "warm", "cold"):
            number = report.model[group]["recall"].users
            if not number:
                continue
            for words, table in lists:
                cells = []
                for measure in columns:
                    value, unit = table[group][measure], 1 if measure == "novelty" else 100
                    # The spread of one user is not known; that of random lists is not theirs.
                    ranged = words != "random" and number > 1
                    reach = f" ± {unit * (value.high - value.mean):.2g}" if ranged else ""
                    cells.append(f"{unit * value.mean:.4g}{reach}")
                if covered:
                    whole = group == "all" and words in coverage
                    cells.append(f"{100 * coverage[words]:.4g}" if whole else "")
                rows.append([f"{group}: {number:,}" if words == "model" else "", words, *cells])
        shown = Table([*heads, *(["coverage"] if covered else [])], rows, left=2).rich(wrap=False)
        for last in range(len(lists) - 1, len(rows), len(lists)):
            shown.rows[last].end_section = True
        Console().print(shown)
