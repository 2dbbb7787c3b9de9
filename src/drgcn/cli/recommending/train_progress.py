"""Trains with a bar, or a line now and then if nobody watches, and says what it took."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from drgcn.cli.tuning_progress import duration_words
from drgcn.recommend.clicks import ClickData, ClickGraph
from drgcn.recommend.distributed.group import GroupExchange
from drgcn.recommend.distributed.run_state import note_attempt, read_attempts
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.objectives import TrainSettings
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.recommend.model.training import TrainProgress, TrainResult, train
from drgcn.studies.records import environment

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
                left = duration_words(now.seconds_left)
                print(f"{words}, about {left} left", file=sys.stderr, flush=True)

        try:
            result = train(
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
