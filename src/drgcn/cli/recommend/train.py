"""``drgcn recommend train``: train embeddings of users and items on clicks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from drgcn.cli.options import DataRoot, Device, Gate, Json, Quiet, Threads, use_threads
from drgcn.cli.recommend.train_options import (
    Model,
    RankOptions,
    Targets,
    TrainOptions,
    read_config,
    read_origin,
)

_OWN: dict[str, Any] = {"show_default": "the model's own"}
_model = partial(typer.Option, rich_help_panel="The model")
_training = partial(typer.Option, rich_help_panel="The training")
_ranks = partial(typer.Option, rich_help_panel="Several processes")
_length = partial(
    typer.Option,
    rich_help_panel="How long: until validation no longer rises, unless --epochs or --steps is "
    "given",
)


def train(
    data: Annotated[
        str,
        typer.Argument(
            help="A published set by name (gowalla, movielens-100k, ...), or a folder that "
            "`ingest` or `generate` wrote; ./gowalla is the folder of that name."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder of the run; one that was cut off goes on.")
    ] = Path("run"),
    model: Annotated[
        Model | None,
        _model(
            help="LightGCN on ids, on ids and attributes (hybrid), or SAGE on attributes.",
            show_default="hybrid; lightgcn without attributes; sage for more than 20 million "
            "clicks",
        ),
    ] = None,
    gate: Annotated[
        Gate | None,
        _model(
            help="In front of every layer of SAGE, or of the attributes in the hybrid.",
            show_default="dr for sage, else none",
        ),
    ] = None,
    channels: Annotated[
        int, typer.Option(min=1, help="Width of hidden vectors and embeddings.")
    ] = 64,
    fan_outs: Annotated[str, _model(help="Neighbours drawn at each level.")] = "10,5",
    layers: Annotated[
        int | None,
        _model(
            min=0,
            help="Propagations (lightgcn, hybrid).",
            show_default="2; 3 for lightgcn with bpr",
        ),
    ] = None,
    user_ids: Annotated[
        int | None,
        _model(
            min=0,
            help="Width of a hashed embedding of the user in SAGE.",
            show_default="none if users have attributes, else --channels",
        ),
    ] = None,
    item_ids: Annotated[
        int | None,
        _model(
            min=0,
            help="Width of an embedding of the item in SAGE.",
            show_default="none if items have attributes, else --channels",
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        _model(
            min=0,
            help="Scores are divided by it.",
            show_default="0.2; 0.07 for sage, 1 for lightgcn with bpr",
        ),
    ] = None,
    normalize: Annotated[
        bool | None,
        _model(
            "--normalize/--no-normalize",
            help="Give vectors the length one.",
            show_default="yes; not for lightgcn with bpr",
        ),
    ] = None,
    cold_share: Annotated[
        float | None,
        _model(
            help="Share of users whose clicks the hybrid hides in a step, to learn of new users.",
            show_default="0.3",
        ),
    ] = None,
    day: Annotated[
        int | None,
        typer.Option(
            help="Learn from the days before this one.",
            show_default="the last; all if there are no days",
        ),
    ] = None,
    all_days: Annotated[bool, typer.Option("--all-days", help="Hold no day back.")] = False,
    split: Annotated[
        str | None,
        typer.Option(
            help="Hold back for test, and validate by: days:7, time:0.1 (a share by time), last "
            "(each user's last clicks), random:0.1 or official.",
            show_default="by --day",
        ),
    ] = None,
    half_life: Annotated[
        str | None,
        typer.Option(
            help="Days after which a click is drawn half as often; of several, as in 3,10,30, and "
            "of auto, validation chooses.",
            show_default="none: all as often",
        ),
    ] = None,
    popularity: Annotated[
        str | None,
        typer.Option(
            help="Weight in every score of how popular the item is; 2:10 counts clicks half after "
            "10 days; of several, as in 0,1,2:10, and of auto, validation chooses; 0 for none.",
            show_default="auto; 0 with --epochs or --steps",
        ),
    ] = None,
    targets: Annotated[
        Targets,
        typer.Option(
            help="Predict every click from the others (same), or those of the last day that is "
            "seen from the days before it."
        ),
    ] = Targets.same,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    epochs: Annotated[
        float | None, _length(help="Times each click is shown: exactly so long, on all clicks.")
    ] = None,
    steps: Annotated[int | None, _length(min=1, help="Steps, in place of epochs.")] = None,
    hold_out: Annotated[
        float | None,
        _length(
            help="Share of the clicks to validate by: the last by day, or of every user's.",
            show_default="0.1, or the published validation",
        ),
    ] = None,
    epochs_max: Annotated[float | None, _length(help="Most epochs.", **_OWN)] = None,
    every: Annotated[float | None, _length(help="Epochs between looks.", **_OWN)] = None,
    patience: Annotated[
        int | None,
        _length(
            min=1, help="Looks without a higher Recall@20 after which training stops.", **_OWN
        ),
    ] = None,
    refit: Annotated[
        bool,
        _length(
            "--refit/--no-refit",
            help="Train a new model on all clicks for as many epochs as were best, or keep the "
            "best weights.",
        ),
    ] = True,
    batch_size: Annotated[
        int | None,
        _training(
            min=1,
            help="Clicks in a step.",
            show_default="about a hundredth of the clicks, from 128 to 8192",
        ),
    ] = None,
    lr: Annotated[float | None, _training(help="Learning rate.", **_OWN)] = None,
    weight_decay: Annotated[float | None, _training(help="L2.", **_OWN)] = None,
    loss: Annotated[str | None, _training(help="softmax or bpr.", show_default="softmax")] = None,
    negatives: Annotated[
        int | None,
        _training(
            min=0,
            help="Uniform negatives in a step.",
            show_default="a quarter of the batch, at most 1024",
        ),
    ] = None,
    logq: Annotated[str, _training(help="standard, refined or off.")] = "standard",
    draw: Annotated[
        str | None, _training(help="Batches of clicks, or of users with a click each.", **_OWN)
    ] = None,
    bfloat16: Annotated[bool, _training("--bfloat16", help="Products in bfloat16.")] = False,
    leak: Annotated[
        bool,
        _training(
            "--leak",
            help="Leave the click that is to be predicted in the graph, to see what that costs.",
        ),
    ] = False,
    checkpoint_every: Annotated[
        float, _training(min=0, help="Seconds between checkpoints.")
    ] = 60.0,
    workers: Annotated[int, _ranks(min=1, help="Processes that share every batch (ranks).")] = 1,
    ray_address: Annotated[
        str | None,
        _ranks(
            help="Run them on a Ray cluster: auto, local or HOST:PORT, see "
            "docs/recommend_inside.md.",
            show_default="on this machine, by torchrun",
        ),
    ] = None,
    restarts: Annotated[int, _ranks(min=0, help="Times they are started again if one dies.")] = 3,
    from_run: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="A finished run to go on from, after `ingest --append`: what it knows keeps its "
            "weights, what is new begins fresh; its settings of model and steps hold unless "
            "others are given.",
            callback=read_origin,
            is_eager=True,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file of these options, as every run leaves one; what is given here as well "
            "goes first.",
            callback=read_config,
            is_eager=True,
        ),
    ] = None,
    content_hash: Annotated[
        str | None, typer.Option(help="Refuse clicks with another content hash.")
    ] = None,
    data_root: DataRoot = None,
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train on clicks and write weights, settings, history and record.

    A share of the clicks is held out; training stops when Recall@20 on them no longer rises, and
    a new model is trained on all clicks for as many epochs. Run again after an interruption, the
    same command goes on from the last checkpoint. Under torchrun it is one rank of several, see
    docs/recommend_inside.md.

    Example: drgcn recommend train movielens-100k --out run

    Example: drgcn recommend train --from run --out run2
    """
    options = TrainOptions(
        data=data,
        out=out,
        model=model,
        gate=gate,
        channels=channels,
        fan_outs=fan_outs,
        layers=layers,
        user_ids=user_ids,
        item_ids=item_ids,
        temperature=temperature,
        normalize=normalize,
        cold_share=cold_share,
        day=day,
        all_days=all_days,
        split=split,
        half_life=half_life,
        popularity=popularity,
        from_run=from_run,
        targets=targets,
        seed=seed,
        epochs=epochs,
        steps=steps,
        hold_out=hold_out,
        epochs_max=epochs_max,
        every=every,
        patience=patience,
        refit=refit,
        batch_size=batch_size,
        lr=lr,
        weight_decay=weight_decay,
        loss=loss,
        negatives=negatives,
        logq=logq,
        draw=draw,
        bfloat16=bfloat16,
        leak=leak,
        content_hash=content_hash,
        data_root=data_root,
        checkpoint_every=checkpoint_every,
        device=device,
        threads=threads,
        json=json,
        quiet=quiet,
    )
    ranks = RankOptions(workers, ray_address, restarts)
    from drgcn.cli.recommend.train_ranks import launch
    from drgcn.cli.recommend.train_run import prepare, print_run, train_here

    use_threads(threads)
    prepared = prepare(options)
    if not ranks.launched:
        train_here(prepared)
        return
    launch(prepared.options, ranks)
    if ray_address is not None:  # with torchrun, rank 0 has printed it
        print_run(out, json)
