"""``drgcn tune``: settings chosen on validation, then tested on fresh seeds."""

from __future__ import annotations

import importlib.util
import json as jsonlib
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn._format import duration
from drgcn.cli.options import (
    DataRoot,
    Dataset,
    Device,
    FeatureFile,
    Gate,
    Json,
    Normalize,
    NormName,
    Offline,
    Split,
    Threads,
    try_a_step,
    use_device,
    use_folder,
    use_threads,
)
from drgcn.errors import InputError, how_to_install

if TYPE_CHECKING:
    from drgcn.studies.tuning.search import Search, SearchProgress


def tune(
    dataset: Dataset,
    model: Annotated[str, typer.Option(help="The model, see `drgcn train --help`.")] = "gcn",
    reweight: Annotated[Gate, typer.Option(help="The gate in front of every layer.")] = Gate.dr,
    compare: Annotated[
        bool, typer.Option("--compare", help="Tune the model without a gate too, as long.")
    ] = False,
    norm: Annotated[NormName, typer.Option(help="Norm in front of every layer.")] = NormName.none,
    split: Split = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials, of each row.")] = 30,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of every trial, from 0.")] = 4,
    fresh_seeds: Annotated[
        int, typer.Option(min=1, help="Seeds of the result; they follow those of the search.")
    ] = 20,
    space: Annotated[
        list[str] | None,
        typer.Option(
            help="What to search: lr=1e-4:1e-1:log, dropout=0:0.8 or hidden_channels=16,32,64; "
            "may be given several times.",
            show_default="around the model's recipe",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Epochs of every run.", show_default="the model's own"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampler.")] = 0,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds after which no more trials are begun.", show_default="none"
        ),
    ] = None,
    normalize: Normalize = None,
    features: FeatureFile = None,
    device: Device = "auto",
    threads: Threads = None,
    data_root: DataRoot = None,
    offline: Offline = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the search.", show_default="tuning/DATASET-SPLIT-MODEL"),
    ] = None,
    json: Json = False,
) -> None:
    """Search for settings on validation nodes, then test the best ones once, on fresh seeds.

    Labels of test nodes are hidden during the search. The same command goes on with a search that
    was cut off. A gain over a model that nobody tuned proves nothing: --compare spends as many
    trials on the model without a gate.

    Example: drgcn tune cora --split full --compare
    """
    if importlib.util.find_spec("optuna") is None:
        raise InputError(
            f"Expected the package optuna to search with; found none. {how_to_install('tune')}"
        )
    from drgcn.cli.comparing import run_rows
    from drgcn.data import load
    from drgcn.studies.experiment import recipe, usual_scaling
    from drgcn.studies.run import build
    from drgcn.studies.tuning.report import tuning_report, tuning_words, write_report
    from drgcn.studies.tuning.search import Search, corners, folder_lock
    from drgcn.studies.tuning.space import default_space, read_space

    if compare and reweight is Gate.none:
        raise InputError("Expected a gate to compare with none; found --reweight none --compare.")
    use_threads(threads)
    where = use_device(device)
    options: dict[str, Any] = {} if features is None else {"features": str(features)}
    normalize = normalize or usual_scaling(dataset, model)
    data = load(dataset, data_root, split=split, normalize=normalize, offline=offline, **options)
    given: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
    given["norm"] = None if norm is NormName.none else norm.value
    usual = recipe(data.dataset.name, data.dataset.split, model, **given)
    gates = [None, reweight.value] if compare else [reweight.value]
    rows = [replace(usual, reweight=None if gate == "none" else gate) for gate in gates]
    make = type(build(usual, data))
    ranges = read_space(space, usual, make) if space else default_space(usual)
    for row in rows:
        for experiment in (row, *corners(row, ranges)):
            # What the model does not take is found before any work is done.
            try_a_step(build(experiment, data), data.num_features)
    folder = use_folder(out or Path("tuning") / _slug(data.dataset, rows[-1].label, compare))
    with folder_lock(folder):
        searches = [
            Search(row, data, ranges, folder, seeds=range(seeds), seed=seed, device=where)
            for row in rows
        ]
        done = _run_searches(searches, trials, timeout)
        pairs = [(search.experiment, search.chosen(done)) for search in searches]
        fresh = range(seeds, seeds + fresh_seeds)
        outcomes = run_rows(
            [e for pair in pairs for e in pair], data, fresh, folder / "fresh", where
        )
        report = tuning_report(
            searches,
            list(zip(outcomes[::2], outcomes[1::2], strict=True)),
            data.dataset,
            trials=done,
            trials_asked=trials,
            timeout=timeout,
            device=where,
            out=folder,
        )
        path = write_report(report, folder)
    print(jsonlib.dumps(report) if json else f"{tuning_words(report)}\n\n{path}")


def _slug(info: Any, label: str, compare: bool) -> str:
    words = [info.name, info.split, label, *(["compare"] if compare else [])]
    return re.sub(r"[^\w.-]+", "-", "-".join(words))


def _run_searches(searches: Sequence[Search], trials: int, timeout: float | None) -> int:
    """Run searches with one bar for all their trials, or a line per trial if nobody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from drgcn.studies.tuning.search import run_searches

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[now]}"),
        TimeRemainingColumn(compact=True),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        already = sum(len(search.trials) for search in searches)
        task = bar.add_task("searching", total=trials * len(searches), completed=already, now="")
        started = time.perf_counter()

        def show(now: SearchProgress) -> None:
            best = "" if now.best is None else f", best on validation {100 * now.best:.2f} %"
            words = f"trial {min(now.done + (not now.finished), now.in_all)} of {now.in_all}{best}"
            bar.update(task, description=now.row, completed=now.done + now.share, now=words)
            if now.finished and not console.is_terminal:
                each = (time.perf_counter() - started) / (now.done - already)
                left = duration(each * (now.in_all - now.done))
                print(f"{now.row}: {words}, about {left} left", file=sys.stderr, flush=True)

        try:
            return run_searches(searches, trials, timeout=timeout, progress=show)
        except KeyboardInterrupt:
            bar.stop()
            print("interrupted; run the same command again to go on", file=sys.stderr)
            raise typer.Exit(130) from None
