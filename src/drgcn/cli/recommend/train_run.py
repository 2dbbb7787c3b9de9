"""One process of ``drgcn recommend train``: choose clicks, train, write the run, print it."""

from __future__ import annotations

import json as jsonlib
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from drgcn._format import duration
from drgcn.cli.options import use_device, use_folder
from drgcn.cli.recommend.train_options import Targets, TrainOptions
from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ClickGraph
from drgcn.recommend.distributed.group import (
    ATTEMPTS,
    GroupExchange,
    joined_ranks,
    note_attempt,
    read_attempts,
    remove_shared,
    shared_clicks,
)
from drgcn.recommend.model import ClickSAGE, LightGCN, build_model, save_run
from drgcn.recommend.model import train as train_model
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.run_folder import CHECKPOINT, HISTORY, RECORD, SETTINGS, WEIGHTS
from drgcn.recommend.model.training import TrainProgress, TrainResult
from drgcn.records import environment

_SHARED = ".clicks-"
_LINE_EVERY = 30.0  # seconds between lines where there is no terminal


@dataclass(frozen=True)
class ChosenClicks:
    """Clicks of a training.

    Attributes:
        day: The day that is held back; ``None`` for none.
        graph: Clicks that make neighbours.
        targets: Clicks to learn; ``None`` for those of the graph.
    """

    day: int | None
    graph: ClickGraph
    targets: ClickGraph | None


def prepare(options: TrainOptions) -> ClickData:
    """Read the clicks and make the folder of the run, or refuse what cannot work."""
    if (options.out / SETTINGS).exists():
        raise InputError(
            f"Expected --out without a finished run; {options.out} holds one already."
        )
    if "RANK" not in os.environ:  # a rank finds what others have begun
        _refuse_foreign_files(options.out)
    options.settings()
    data = ClickData.load(options.folder)
    use_folder(options.out)
    return data


def _refuse_foreign_files(out: Path) -> None:
    names = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    own = (CHECKPOINT, ATTEMPTS, WEIGHTS, HISTORY, RECORD, ".")
    if names and not any(name.startswith(own) for name in names):
        raise InputError(
            f"Expected --out to be a new folder, or one of a run that was cut off; {out} holds "
            f"other files, such as {names[0]}. Choose another."
        )


def train_here(options: TrainOptions, data: ClickData) -> None:
    """Train in this process; of several ranks, the first writes and prints the run."""
    settings = options.settings()
    with joined_ranks(use_device(options.device)) as (exchange, device):
        clicks = _rank_clicks(data, options, exchange)
        model = build_model(data, clicks.graph, options.model_options())
        result = _train_with_progress(model, data, clicks, options, exchange, device)
        if exchange.rank > 0:
            return
        facts = {
            "data": data.name,
            "content_hash": data.content_hash,
            "day": clicks.day,
            # Relative to the run, so that both may be moved together.
            "folder": os.path.relpath(options.folder, options.out),
            "targets": options.targets.value,
            **asdict(settings),
        }
        record = _record(data, clicks.graph, result, settings.batch_size, device)
        if exchange.size > 1:
            record |= {"ranks": exchange.size, "attempts": len(read_attempts(options.out))}
        save_run(options.out, model, facts, result.losses, record)
        (options.out / CHECKPOINT).unlink(missing_ok=True)
        for folder in options.out.glob(f"{_SHARED}*"):
            remove_shared(folder)
        print_run(options.out, options.json)


def chosen_clicks(data: ClickData, options: TrainOptions) -> ChosenClicks:
    """Choose the clicks to learn from by ``--day``, ``--all-days`` and ``--targets``."""
    graph, targets = data.graph, options.targets
    if graph.days is None or options.all_days:
        if options.day is not None or targets is Targets.last_day:
            raise InputError(
                "Expected clicks with days, and no --all-days, for --day and --targets last-day."
            )
        return ChosenClicks(None, graph, None)
    first, end = graph.day_range
    last = _held_back(graph, options)
    if last > end:
        raise InputError(
            f"Expected --day from {first + 1} to {end}, the days of the clicks; found {last}. "
            f"Choose another, or hold no day back with --all-days."
        )
    seen = graph.until(last)
    if not seen.num_clicks:
        raise InputError(
            f"Expected clicks before day {last}; found none. Days go from {first} to {end}. "
            f"Choose another --day, or --all-days."
        )
    if targets is Targets.same:
        return ChosenClicks(last, seen, None)
    goal = seen.on(seen.day_range[1])
    before = seen.until(seen.day_range[1])
    if not before.num_clicks:
        raise InputError(
            f"Expected clicks on two days before day {last} for --targets last-day; found one."
        )
    return ChosenClicks(last, before, goal)


def _held_back(graph: ClickGraph, options: TrainOptions) -> int:
    return graph.day_range[1] if options.day is None else options.day


def _rank_clicks(data: ClickData, options: TrainOptions, exchange: Exchange) -> ChosenClicks:
    """As :func:`chosen_clicks`; of several ranks, one makes the clicks and all map them."""
    if not isinstance(exchange, GroupExchange):
        return chosen_clicks(data, options)
    exchange.expect_same("clicks", data.content_hash)
    if data.graph.days is None or options.all_days:  # as they are, which is mapped already
        return chosen_clicks(data, options)
    last = _held_back(data.graph, options)
    name = f"{_SHARED}{data.content_hash[:16]}-{last}-{options.targets.value}"

    def make() -> tuple[ClickGraph, ClickGraph | None]:
        chosen = chosen_clicks(data, options)
        return chosen.graph, chosen.targets

    return ChosenClicks(last, *shared_clicks(make, options.out / name, exchange))


def _train_with_progress(
    model: ClickSAGE | LightGCN,
    data: ClickData,
    clicks: ChosenClicks,
    options: TrainOptions,
    exchange: Exchange,
    device: torch.device,
) -> TrainResult:
    """Train with a progress bar on a terminal, elsewhere with a line now and then."""
    columns = (
        TextColumn("training"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[words]}"),
        TimeRemainingColumn(compact=True),
    )
    console = Console(stderr=True)
    quiet = exchange.rank > 0
    printed = time.perf_counter()
    checkpoint = options.out / CHECKPOINT
    if isinstance(exchange, GroupExchange):
        note_attempt(options.out, checkpoint, exchange)
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("training", total=None, words="making ready")

        def show(now: TrainProgress) -> None:
            nonlocal printed
            words = f"{now.step} of {now.steps} steps, loss {now.loss:.4f}"
            bar.update(task, completed=now.step, total=now.steps, words=words)
            if not console.is_terminal and time.perf_counter() - printed > _LINE_EVERY:
                printed = time.perf_counter()
                left = duration(now.seconds_left)
                print(f"{words}, about {left} left", file=sys.stderr, flush=True)

        try:
            return train_model(
                model,
                data,
                clicks.graph,
                options.settings(),
                targets=clicks.targets,
                device=device,
                checkpoint=checkpoint,
                checkpoint_every=options.checkpoint_every,
                exchange=exchange,
                progress=None if quiet else show,
            )
        except KeyboardInterrupt:
            bar.stop()
            if exchange.size == 1:  # else the process that started the ranks prints it
                print("interrupted; run the same command again to go on", file=sys.stderr)
            raise typer.Exit(130) from None


def _record(
    data: ClickData,
    graph: ClickGraph,
    result: TrainResult,
    batch_size: int,
    device: torch.device,
) -> dict[str, Any]:
    tail = result.losses[-max(result.steps // 10, 1) :]
    positives = result.steps * batch_size
    record: dict[str, Any] = {
        "data": data.name,
        "content_hash": data.content_hash,
        "users": graph.num_users,
        "items": graph.num_items,
        "clicks": graph.num_clicks,
        "steps": result.steps,
        "positives": positives,
        "seconds": result.seconds,
        "positives_per_second": positives / result.seconds,
        "loss": float(tail.mean()),
        "fingerprint": result.fingerprint,
        "environment": environment(device),
    }
    if device.type == "cuda":
        record["peak_bytes"] = torch.cuda.max_memory_allocated(device)
    return record


def print_run(out: Path, json: bool) -> None:
    """Print steps, seconds and loss of a finished run."""
    record = jsonlib.loads((out / RECORD).read_text(encoding="utf-8"))
    if json:
        print(jsonlib.dumps({"run": str(out), **record}))
        return
    print(
        f"{record['steps']:,} steps in {record['seconds']:.1f} s, loss {record['loss']:.4f} over "
        f"the last tenth"
    )
    print(f"written to {out}")
