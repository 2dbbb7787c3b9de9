"""``drgcn recommend train``: train embeddings of users and items on clicks."""

from __future__ import annotations

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
_MODEL, _TRAINING, _RANKS = "The model", "The training", "Several processes"
_LENGTH = "How long: until validation no longer rises, unless --epochs or --steps is given"


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
        typer.Option(
            help="LightGCN on ids, on ids and attributes (hybrid), or SAGE on attributes.",
            show_default="hybrid; lightgcn without attributes; sage for more than 20 million "
            "clicks",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    gate: Annotated[
        Gate | None,
        typer.Option(
            help="In front of every layer of SAGE, or of the attributes in the hybrid.",
            show_default="dr for sage, else none",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    channels: Annotated[
        int, typer.Option(min=1, help="Width of hidden vectors and embeddings.")
    ] = 64,
    fan_outs: Annotated[
        str, typer.Option(help="Neighbours drawn at each level.", rich_help_panel=_MODEL)
    ] = "10,5",
    layers: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Propagations (lightgcn, hybrid).",
            show_default="2; 3 for lightgcn with bpr",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    user_ids: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Width of a hashed embedding of the user in SAGE.",
            show_default="none if users have attributes, else --channels",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    item_ids: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Width of an embedding of the item in SAGE.",
            show_default="none if items have attributes, else --channels",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Scores are divided by it.",
            show_default="0.2; 0.07 for sage, 1 for lightgcn with bpr",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    normalize: Annotated[
        bool | None,
        typer.Option(
            "--normalize/--no-normalize",
            help="Give vectors the length one.",
            show_default="yes; not for lightgcn with bpr",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    cold_share: Annotated[
        float | None,
        typer.Option(
            help="Share of users whose clicks the hybrid hides in a step, to learn of new users.",
            show_default="0.3",
            rich_help_panel=_MODEL,
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
        float | None,
        typer.Option(
            help="Times each click is shown: exactly so long, on all clicks.",
            rich_help_panel=_LENGTH,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Steps, in place of epochs.", rich_help_panel=_LENGTH),
    ] = None,
    hold_out: Annotated[
        float | None,
        typer.Option(
            help="Share of the clicks to validate by: the last by day, or of every user's.",
            show_default="0.1, or the published validation",
            rich_help_panel=_LENGTH,
        ),
    ] = None,
    epochs_max: Annotated[
        float | None, typer.Option(help="Most epochs.", rich_help_panel=_LENGTH, **_OWN)
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(help="Epochs between looks.", rich_help_panel=_LENGTH, **_OWN),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Looks without a higher Recall@20 after which training stops.",
            rich_help_panel=_LENGTH,
            **_OWN,
        ),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit/--no-refit",
            help="Train a new model on all clicks for as many epochs as were best, or keep the "
            "best weights.",
            rich_help_panel=_LENGTH,
        ),
    ] = True,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Clicks in a step.",
            show_default="about a hundredth of the clicks, from 128 to 8192",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate.", rich_help_panel=_TRAINING, **_OWN)
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="L2.", rich_help_panel=_TRAINING, **_OWN)
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(help="softmax or bpr.", show_default="softmax", rich_help_panel=_TRAINING),
    ] = None,
    negatives: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Uniform negatives in a step.",
            show_default="a quarter of the batch, at most 1024",
            rich_help_panel=_TRAINING,
        ),
    ] = None,
    logq: Annotated[
        str, typer.Option(help="standard, refined or off.", rich_help_panel=_TRAINING)
    ] = "standard",
    draw: Annotated[
        str | None,
        typer.Option(
            help="Batches of clicks, or of users with a click each.",
            rich_help_panel=_TRAINING,
            **_OWN,
        ),
    ] = None,
    bfloat16: Annotated[
        bool,
        typer.Option("--bfloat16", help="Products in bfloat16.", rich_help_panel=_TRAINING),
    ] = False,
    leak: Annotated[
        bool,
        typer.Option(
            "--leak",
            help="Leave the click that is to be predicted in the graph, to see what that costs.",
            rich_help_panel=_TRAINING,
        ),
    ] = False,
    checkpoint_every: Annotated[
        float, typer.Option(min=0, help="Seconds between checkpoints.", rich_help_panel=_TRAINING)
    ] = 60.0,
    workers: Annotated[
        int,
        typer.Option(
            min=1, help="Processes that share every batch (ranks).", rich_help_panel=_RANKS
        ),
    ] = 1,
    ray_address: Annotated[
        str | None,
        typer.Option(
            help="Run them on a Ray cluster: auto, local or HOST:PORT, see "
            "docs/recommend_inside.md.",
            show_default="on this machine, by torchrun",
            rich_help_panel=_RANKS,
        ),
    ] = None,
    restarts: Annotated[
        int,
        typer.Option(
            min=0, help="Times they are started again if one dies.", rich_help_panel=_RANKS
        ),
    ] = 3,
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
