"""``drgcn recommend train``: learn embeddings of users and items from a folder of clicks."""

from __future__ import annotations

import json as jsonlib
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from drgcn._format import duration
from drgcn.cli.options import Device, Gate, Json, Threads, use_device, use_threads
from drgcn.cli.recommend.train_inputs import (
    Model,
    Targets,
    build,
    chosen_settings,
    clear_run,
    numbers,
    rank_clicks,
)
from drgcn.cli.writable import use_folder
from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ClickGraph
from drgcn.recommend.distributed.group import GroupExchange, joined_ranks
from drgcn.recommend.distributed.run_state import note_attempt, read_attempts
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.objectives import TrainSettings
from drgcn.recommend.model.run_folder import CHECKPOINT, RECORD, save_run
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.recommend.model.training import TrainProgress, TrainResult
from drgcn.recommend.model.training import train as train_model
from drgcn.records import environment

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
    asked = dict(locals())  # all options; nothing else is there yet
    from drgcn.cli.recommend.train_inputs import expect_own
    from drgcn.cli.recommend.train_ranks import launch
    from drgcn.recommend.clicks import ClickData
    from drgcn.recommend.model.run_folder import SETTINGS

    use_threads(threads)
    if (out / SETTINGS).exists():
        raise InputError(f"Expected --out without a finished run; {out} holds one already.")
    if "RANK" not in os.environ:  # a rank finds what others have begun
        expect_own(out)
    settings = chosen_settings(asked)
    data = ClickData.load(folder)
    use_folder(out)
    if workers > 1 or ray_address is not None:
        launch(asked, settings)
        if ray_address is not None:  # with torchrun, rank 0 has said it
            say_run(out, json)
        return
    train_here(asked, settings, data)


def train_here(asked: Mapping[str, Any], settings: TrainSettings, data: ClickData) -> None:
    """Trains, and says how it went; of several ranks, the first writes and says it.

    Args:
        asked: All options of the command by name.
        settings: What they come to.
        data: The clicks.
    """
    out, targets = asked["out"], asked["targets"]
    with joined_ranks(use_device(asked["device"])) as (exchange, where):
        last, graph, goal = rank_clicks(
            data, asked["day"], asked["all_days"], targets, out, exchange
        )
        made = build(
            *(asked["model"], data, graph, asked["seed"], asked["gate"], asked["channels"]),
            *(numbers(asked["fan_outs"]), asked["layers"], asked["user_ids"], asked["item_ids"]),
            asked["temperature"],
        )
        result, record = trained(
            *(made, data, graph, settings, goal, where),
            checkpoint=out / CHECKPOINT,
            checkpoint_every=asked["checkpoint_every"],
            exchange=exchange,
        )
        if exchange.rank > 0:
            return
        facts = {
            **{"data": data.name, "content_hash": data.content_hash, "day": last},
            # Seen from the run, so that both may be moved together.
            **{"folder": os.path.relpath(asked["folder"], out), "targets": targets.value},
            **asdict(settings),
        }
        save_run(out, made, facts, result.losses, record)
        clear_run(out)
        say_run(out, asked["json"])


def say_run(out: Path, json: bool) -> None:
    """How a run went that was written to the end."""
    record = jsonlib.loads((out / RECORD).read_text(encoding="utf-8"))
    if json:
        print(jsonlib.dumps({"run": str(out), **record}))
        return
    print(
        f"{record['steps']:,} steps in {record['seconds']:.1f} s, loss {record['loss']:.4f} over "
        f"the last tenth"
    )
    print(f"written to {out}")


_LINE_EVERY = 30.0


def trained(
    model: ClickSAGE | LightGCN,
    data: ClickData,
    graph: ClickGraph,
    settings: TrainSettings,
    targets: ClickGraph | None,
    device: torch.device,
    *,
    checkpoint: Path,
    checkpoint_every: float,
    exchange: Exchange,
) -> tuple[TrainResult, dict[str, Any]]:
    """See :func:`~drgcn.recommend.model.training.train`; also the record of the run."""
    columns = (
        TextColumn("training"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[words]}"),
        TimeRemainingColumn(compact=True),
    )
    console = Console(stderr=True)
    quiet = exchange.rank > 0
    said = time.perf_counter()
    if isinstance(exchange, GroupExchange):
        note_attempt(checkpoint.parent, checkpoint, exchange)
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("training", total=None, words="making ready")

        def show(now: TrainProgress) -> None:
            nonlocal said
            words = f"{now.step} of {now.steps} steps, loss {now.loss:.4f}"
            bar.update(task, completed=now.step, total=now.steps, words=words)
            if not console.is_terminal and time.perf_counter() - said > _LINE_EVERY:
                said = time.perf_counter()
                left = duration(now.seconds_left)
                print(f"{words}, about {left} left", file=sys.stderr, flush=True)

        try:
            result = train_model(
                *(model, data, graph, settings),
                targets=targets,
                device=device,
                checkpoint=checkpoint,
                checkpoint_every=checkpoint_every,
                exchange=exchange,
                progress=None if quiet else show,
            )
        except KeyboardInterrupt:
            bar.stop()
            if exchange.size == 1:  # else whoever started the ranks says it
                print("interrupted; run the same command again to go on", file=sys.stderr)
            raise typer.Exit(130) from None
    tail = result.losses[-max(result.steps // 10, 1) :]
    shown = result.steps * settings.batch_size
    record: dict[str, Any] = {
        **{"data": data.name, "content_hash": data.content_hash},
        **{"users": graph.num_users, "items": graph.num_items, "clicks": graph.num_clicks},
        **{"steps": result.steps, "positives": shown, "seconds": result.seconds},
        **{"positives_per_second": shown / result.seconds, "loss": float(tail.mean())},
        **{"fingerprint": result.fingerprint, "environment": environment(device)},
    }
    if exchange.size > 1:
        record |= {"ranks": exchange.size, "attempts": len(read_attempts(checkpoint.parent))}
    if device.type == "cuda":
        record["peak_bytes"] = torch.cuda.max_memory_allocated(device)
    return result, record
