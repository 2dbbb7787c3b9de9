"""``drgcn recommend compare``: gates on clicks, paired by seed, with a record of every run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from drgcn.cli.options import DataRoot, Device, Json, Threads, use_device, use_threads
from drgcn.cli.recommending.compare_inputs import chosen_gates, searched_rates, study_clicks
from drgcn.cli.recommending.compare_words import begin, show
from drgcn.cli.recommending.train_inputs import Model, numbers
from drgcn.cli.writable import use_folder

_OWN: dict[str, Any] = {"show_default": "the recipe's"}
_TRAINING = "The training, shared by all gates"


def compare(
    data: Annotated[
        str, typer.Argument(help="A known set, `astar`, or a folder that `ingest` wrote.")
    ],
    more: Annotated[
        list[str] | None, typer.Argument(hidden=True, help="Further names after --gates.")
    ] = None,
    gates: Annotated[
        str,
        typer.Option(help="Of none, constant, static, dr.", show_default="all; none for lightgcn"),
    ] = "",
    seeds: Annotated[int, typer.Option(min=1, help="How many, from 0.")] = 5,
    model: Annotated[Model, typer.Option(help="SAGE, or LightGCN without gates.")] = Model.sage,
    fast: Annotated[
        bool, typer.Option("--fast", help="LightGCN with a softmax loss: a variant.")
    ] = False,
    split: Annotated[str | None, typer.Option(help="time or official.", **_OWN)] = None,
    days: Annotated[
        int | None, typer.Option(min=1, help="Days in test and validation each.", **_OWN)
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="Test the weights kept by validation (kept), or ones trained on all clicks "
            "before the test, for as long as validation says (refit) or --epochs-max (fixed).",
            **_OWN,
        ),
    ] = None,
    n: Annotated[
        str | None, typer.Option(help="Lengths of lists; validation looks at the first.", **_OWN)
    ] = None,
    epochs_max: Annotated[
        float | None, typer.Option(help="Most epochs.", rich_help_panel=_TRAINING, **_OWN)
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(help="Epochs between looks.", rich_help_panel=_TRAINING, **_OWN),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(min=1, help="Looks without a better one.", rich_help_panel=_TRAINING, **_OWN),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Clicks.", rich_help_panel=_TRAINING, **_OWN)
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate.", rich_help_panel=_TRAINING, **_OWN)
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            help="lr=3e-4,1e-3,3e-3: choose it by validation of the plain model alone.",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    channels: Annotated[
        int | None, typer.Option(min=1, help="Width.", rich_help_panel=_TRAINING, **_OWN)
    ] = None,
    fan_outs: Annotated[
        str | None, typer.Option(help="As in 10,5.", rich_help_panel=_TRAINING, **_OWN)
    ] = None,
    bfloat16: Annotated[
        bool,
        typer.Option("--bfloat16", help="Products in bfloat16.", rich_help_panel=_TRAINING),
    ] = False,
    fraction: Annotated[float, typer.Option(help="Of full size, for `astar`.")] = 0.01,
    jobs: Annotated[
        int, typer.Option(min=1, help="Runs at once on the device, each a process.")
    ] = 1,
    out: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("results/recommend"),
    checkpoint_every: Annotated[
        float, typer.Option(min=0, help="Seconds between checkpoints.")
    ] = 30.0,
    data_root: DataRoot = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Train every gate and seed to a plateau on validation, test each once, and compare.

    One record a run; what is on record is not run again, so the same command goes on after an
    interruption. Gates share everything but themselves.

    Example: drgcn recommend compare movielens-100k --gates none constant static dr --seeds 5
    """
    from dataclasses import replace

    from drgcn.recommend.study import compare as run_study
    from drgcn.recommend.study.settings import recipe
    from drgcn.studies.records import environment

    use_threads(threads)
    where = use_device(device)
    use_folder(out)
    given = {
        **{"split": split, "days": days, "protocol": protocol, "epochs_max": epochs_max},
        **{"every": every, "patience": patience, "batch_size": batch_size, "lr": lr},
        **{"channels": channels, "bfloat16": bfloat16 or None},
        "n": None if n is None else numbers(n),
        "fan_outs": None if fan_outs is None else numbers(fan_outs),
    }
    asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    load = partial(study_clicks, data, fraction, where, data_root)
    clicks = load()
    usual = recipe(clicks.name, model.value, fast=fast)
    if clicks.parts and usual.split == "time" and split is None:
        usual = replace(usual, split="official")
    records = run_study(
        *(clicks, replace(usual, **asked), out),
        gates=chosen_gates(gates, more or [], model),
        seeds=range(seeds),
        search_lr=searched_rates(search),
        device=where,
        environment=environment(where),
        checkpoint_every=checkpoint_every,
        begin=begin,
        jobs=jobs,
        load=load,
    )
    show(records, json)
