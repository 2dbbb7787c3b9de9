"""``drgcn recommend train``: learn embeddings of users and items from a folder of clicks."""

from __future__ import annotations

import json as jsonlib
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from drgcn.cli.options import Device, Gate, Json, Threads, use_device, use_threads
from drgcn.cli.recommending.train_inputs import Model, Targets, build, numbers
from drgcn.cli.writable import use_folder
from drgcn.errors import InputError

_OWN: dict[str, Any] = {"show_default": "the model's own"}
_MODEL, _TRAINING, _RANKS = "The model", "The training", "Several processes"


_DEFAULTS: dict[Model, dict[str, Any]] = {
    Model.sage: {"epochs": 5.0, "batch_size": 8192, "loss": "softmax", "draw": "clicks"},
    # Those of its authors, on all of their datasets.
    Model.lightgcn: {
        **{"epochs": 1000.0, "batch_size": 2048, "loss": "bpr", "draw": "users"},
        **{"weight_decay": 1e-4},
    },
}


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
    asked = dict(locals())  # all options; nothing else is there yet
    from dataclasses import asdict

    from drgcn.cli.recommending.rank_clicks import clear_run, expect_own, rank_clicks
    from drgcn.cli.recommending.train_progress import trained
    from drgcn.cli.recommending.train_ranks import launch
    from drgcn.recommend.clicks import ClickData
    from drgcn.recommend.distributed.rank_group import joined_ranks
    from drgcn.recommend.model.run_folder import CHECKPOINT, SETTINGS, save_run
    from drgcn.recommend.model.train_settings import TrainSettings

    use_threads(threads)
    if (out / SETTINGS).exists():
        raise InputError(f"Expected --out without a finished run; {out} holds one already.")
    if "RANK" not in os.environ:  # a rank finds what others have begun
        expect_own(out)
    given = {
        **{"epochs": epochs, "batch_size": batch_size, "loss": loss, "draw": draw},
        **{"weight_decay": weight_decay},
    }
    usual = _DEFAULTS[model] | {name: v for name, v in given.items() if v is not None}
    settings = TrainSettings(
        seed=seed,
        steps=steps,
        lr=lr,
        negatives=negatives,
        logq=logq,  # type: ignore[arg-type]
        mask_target=not leak,
        bfloat16=bfloat16,
        **usual,
    )
    data = ClickData.load(folder)
    use_folder(out)
    if workers > 1 or ray_address is not None:
        launch(asked, settings)
        if ray_address is not None:  # with torchrun, rank 0 has said it
            _say(out, json)
        return
    with joined_ranks(use_device(device)) as (exchange, where):
        last, graph, goal = rank_clicks(data, day, all_days, targets, out, exchange)
        made = build(
            *(model, data, graph, seed, gate, channels, numbers(fan_outs), layers),
            *(user_ids, item_ids, temperature),
        )
        result, record = trained(
            *(made, data, graph, settings, goal, where),
            checkpoint=out / CHECKPOINT,
            checkpoint_every=checkpoint_every,
            exchange=exchange,
        )
        if exchange.rank > 0:
            return
        facts = {
            **{"data": data.name, "content_hash": data.content_hash, "day": last},
            # Seen from the run, so that both may be moved together.
            **{"folder": os.path.relpath(folder, out), "targets": targets.value},
            **asdict(settings),
        }
        save_run(out, made, facts, result.losses, record)
        clear_run(out)
        _say(out, json)


def _say(out: Path, json: bool) -> None:
    """How a run went that was written to the end."""
    from drgcn.recommend.model.run_folder import RECORD

    record = jsonlib.loads((out / RECORD).read_text(encoding="utf-8"))
    if json:
        print(jsonlib.dumps({"run": str(out), **record}))
        return
    print(
        f"{record['steps']:,} steps in {record['seconds']:.1f} s, loss {record['loss']:.4f} over "
        f"the last tenth"
    )
    print(f"written to {out}")
