"""``drgcn recommend train``: train embeddings of users and items on a folder of clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from drgcn.cli.options import Device, Gate, Json, Threads, use_threads
from drgcn.cli.recommend.train_options import Model, RankOptions, Targets, TrainOptions

_OWN: dict[str, Any] = {"show_default": "the model's own"}
_MODEL, _TRAINING, _RANKS = "The model", "The training", "Several processes"


def train(
    folder: Annotated[Path, typer.Argument(help="Clicks, as `ingest` or `generate` wrote them.")],
    out: Annotated[
        Path, typer.Option(help="Folder of the run; one that was cut off goes on.")
    ] = Path("run"),
    model: Annotated[
        Model, typer.Option(help="SAGE on attributes, or LightGCN on ids.", rich_help_panel=_MODEL)
    ] = Model.sage,
    gate: Annotated[
        Gate, typer.Option(help="In front of every layer of SAGE.", rich_help_panel=_MODEL)
    ] = Gate.dr,
    channels: Annotated[
        int, typer.Option(min=1, help="Width of hidden vectors and embeddings.")
    ] = 64,
    fan_outs: Annotated[
        str, typer.Option(help="Neighbours drawn at each level.", rich_help_panel=_MODEL)
    ] = "10,5",
    layers: Annotated[
        int, typer.Option(min=0, help="Layers of LightGCN.", rich_help_panel=_MODEL)
    ] = 3,
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
            show_default="0.07; 1 for lightgcn",
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
    targets: Annotated[
        Targets,
        typer.Option(
            help="Predict every click from the others (same), or those of the last day that is "
            "seen from the days before it."
        ),
    ] = Targets.same,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    epochs: Annotated[
        float | None, typer.Option(help="Times each click is shown.", **_OWN)
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps, in place of epochs.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Clicks in a step.", **_OWN)
    ] = None,
    lr: Annotated[float, typer.Option(help="Learning rate.", rich_help_panel=_TRAINING)] = 1e-3,
    weight_decay: Annotated[
        float | None, typer.Option(help="L2.", rich_help_panel=_TRAINING, **_OWN)
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="softmax or bpr.", rich_help_panel=_TRAINING, **_OWN)
    ] = None,
    negatives: Annotated[
        int,
        typer.Option(min=0, help="Uniform negatives in a step.", rich_help_panel=_TRAINING),
    ] = 1024,
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
            help="Run them on a Ray cluster: auto, local or HOST:PORT, see docs/scale.md.",
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
    device: Device = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Train on clicks and write weights, settings, history and record.

    Run again after an interruption, the same command goes on from the last checkpoint. Under
    torchrun it is one rank of several, see docs/scale.md.

    Example: drgcn recommend train clicks --out run --epochs 5
    """
    options = TrainOptions(
        folder=folder,
        out=out,
        model=model,
        gate=gate,
        channels=channels,
        fan_outs=fan_outs,
        layers=layers,
        user_ids=user_ids,
        item_ids=item_ids,
        temperature=temperature,
        day=day,
        all_days=all_days,
        targets=targets,
        seed=seed,
        epochs=epochs,
        steps=steps,
        batch_size=batch_size,
        lr=lr,
        weight_decay=weight_decay,
        loss=loss,
        negatives=negatives,
        logq=logq,
        draw=draw,
        bfloat16=bfloat16,
        leak=leak,
        checkpoint_every=checkpoint_every,
        device=device,
        threads=threads,
        json=json,
    )
    ranks = RankOptions(workers, ray_address, restarts)
    from drgcn.cli.recommend.train_ranks import launch
    from drgcn.cli.recommend.train_run import prepare, print_run, train_here

    use_threads(threads)
    data = prepare(options)
    if not ranks.launched:
        train_here(options, data)
        return
    launch(options, ranks)
    if ray_address is not None:  # with torchrun, rank 0 has printed it
        print_run(out, json)
