"""One process of ``drgcn recommend train``: choose clicks, train, write the run, print it."""

from __future__ import annotations

import json as jsonlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from drgcn._format import duration, plural
from drgcn._io import write_whole
from drgcn.cli.options import use_device, use_folder
from drgcn.cli.recommend.train_options import (
    Targets,
    TrainOptions,
    clicks_source,
    open_clicks,
)
from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ClickGraph
from drgcn.recommend.clicks.splits import (
    FEW_TARGETS,
    ClickSplit,
    SplitRule,
    hold_out,
    split_clicks,
)
from drgcn.recommend.distributed.group import (
    ATTEMPTS,
    GroupExchange,
    joined_ranks,
    note_attempt,
    read_attempts,
    remove_shared,
    shared_clicks,
)
from drgcn.recommend.model import save_run
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.fitting import Fit, Fitting, popular_recall
from drgcn.recommend.model.run_folder import (
    CHECKPOINT,
    CHOICE,
    CONFIG,
    HISTORY,
    RECORD,
    SETTINGS,
    WEIGHTS,
    relative_source,
)
from drgcn.recommend.model.training import TrainProgress
from drgcn.records import environment

_SHARED = ".clicks-"
_LINE_EVERY = 30.0  # seconds between lines where there is no terminal
_HOLD_OUT = 0.1


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """Options with nothing left open, and the clicks.

    Attributes:
        options: The options.
        data: All clicks.
    """

    options: TrainOptions
    data: ClickData


@dataclass(frozen=True, eq=False)
class ChosenClicks:
    """Clicks of a training.

    Attributes:
        day: The day that is held back; ``None`` for none.
        graph: Clicks that make neighbours.
        targets: Clicks to learn; ``None`` for those of the graph.
        validation: The same clicks, some of them held out; ``None`` if nothing validates.
    """

    day: int | None
    graph: ClickGraph
    targets: ClickGraph | None
    validation: ClickSplit | None = None


def prepare(options: TrainOptions) -> PreparedRun:
    """Read the clicks and make the folder of the run, or refuse what cannot work."""
    if (options.out / SETTINGS).exists():
        raise InputError(
            f"Expected --out without a finished run; {options.out} holds one already."
        )
    if "RANK" not in os.environ:  # a rank finds what others have begun
        _refuse_foreign_files(options.out)
    data = open_clicks(options.data, options.data_root)
    if options.content_hash not in (None, data.content_hash):
        raise InputError(
            f"Expected clicks with the content hash {str(options.content_hash)[:12]}; "
            f"{options.data} has {data.content_hash[:12]}. Give the clicks that the settings were "
            f"written for, or leave --content-hash out."
        )
    last, seen = _held_back(data.graph, options), data.graph.num_clicks
    held = 0
    if options.split is not None:
        counts = split_clicks(data, SplitRule.parse(options.split)).counts
        held, seen = counts["test"], seen - counts["test"]
    elif last is not None and data.graph.days is not None:
        held, seen = (
            int(part.sum()) for part in (data.graph.days == last, data.graph.days < last)
        )
    options = options.resolved(seen, data.users is not None or data.items is not None)
    own = options.split is not None or _has_validation(data, last)
    if options.validated and options.hold_out is None and not own:
        options = replace(options, hold_out=_HOLD_OUT)
    options.settings(), options.stopping(), options.model_options()  # which check their values
    use_folder(options.out)
    if 0 < held < FEW_TARGETS and os.environ.get("RANK", "0") == "0":
        print(
            f"warning: only {plural(held, 'click')} held back for test, fewer than "
            f"{FEW_TARGETS:,}: an evaluation will be uncertain. Hold back more, as by "
            f"--split time:0.1.",
            file=sys.stderr,
        )
    return PreparedRun(replace(options, content_hash=data.content_hash), data)


def _refuse_foreign_files(out: Path) -> None:
    names = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    own = (CHECKPOINT, CHOICE, CONFIG, ATTEMPTS, WEIGHTS, HISTORY, RECORD, ".")
    if names and not any(name.startswith(own) for name in names):
        raise InputError(
            f"Expected --out to be a new folder, or one of a run that was cut off; {out} holds "
            f"other files, such as {names[0]}. Choose another."
        )


def train_here(prepared: PreparedRun) -> None:
    """Train in this process; of several ranks, the first writes and prints the run."""
    options, data = prepared.options, prepared.data
    settings = options.settings()
    with joined_ranks(use_device(options.device)) as (exchange, device):
        clicks = _rank_clicks(data, options, exchange)
        fit = _fit_with_progress(prepared, clicks, exchange, device)
        if exchange.rank > 0:
            return
        source = clicks_source(options.data, options.data_root)
        facts = {
            "data": data.name,
            "content_hash": data.content_hash,
            "day": clicks.day,
            "split": options.split,
            **relative_source(source, options.out),
            "targets": options.targets.value,
            **asdict(replace(settings, steps=fit.steps)),
        }
        record = _record(data, clicks, fit, options, device)
        if exchange.size > 1:
            record |= {"ranks": exchange.size, "attempts": len(read_attempts(options.out))}
        write_whole(options.out / CONFIG, options.to_toml())
        save_run(options.out, fit.model, facts, fit.losses, record)
        for name in (CHECKPOINT, CHOICE):
            (options.out / name).unlink(missing_ok=True)
        for folder in options.out.glob(f"{_SHARED}*"):
            remove_shared(folder)
        print_run(options.out, options.json)


def chosen_clicks(data: ClickData, options: TrainOptions) -> ChosenClicks:
    """Choose the clicks to learn from by ``--day``, ``--all-days`` and ``--targets``."""
    graph, targets = data.graph, options.targets
    last = _held_back(graph, options)
    if options.split is not None:
        found = split_clicks(data, SplitRule.parse(options.split))
        validation = found.validation if options.validated else None
        return ChosenClicks(None, found.test.train, None, validation)
    if last is None:
        if options.day is not None or targets is Targets.last_day:
            raise InputError(
                "Expected clicks with days, and no --all-days, for --day and --targets last-day."
            )
        return ChosenClicks(None, graph, None)
    first, end = graph.day_range
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


def _held_back(graph: ClickGraph, options: TrainOptions) -> int | None:
    """The first day that is not learnt from; ``None`` if all are."""
    if graph.days is None or options.all_days or options.split is not None:
        return None
    return graph.day_range[1] if options.day is None else options.day


def _has_validation(data: ClickData, last: int | None) -> bool:
    """True if a part to validate by came with the clicks and is the last that is learnt from."""
    if "valid" not in data.parts or data.graph.days is None:
        return False
    day = data.parts.index("valid")
    return last == day + 1 and bool((data.graph.days == day).any())


def _validation(data: ClickData, graph: ClickGraph, options: TrainOptions) -> ClickSplit:
    """Divide the clicks to learn from: as they came, by time, or by users."""
    if options.hold_out is None:
        return hold_out(graph, day=data.parts.index("valid"))
    return hold_out(graph, options.hold_out, by_time=not data.parts)


def _rank_clicks(data: ClickData, options: TrainOptions, exchange: Exchange) -> ChosenClicks:
    """As :func:`chosen_clicks`, with validation; of several ranks, one makes the clicks and all
    map them."""
    if not isinstance(exchange, GroupExchange):
        chosen = chosen_clicks(data, options)
        if not options.validated or chosen.validation is not None:
            return chosen
        return replace(chosen, validation=_validation(data, chosen.graph, options))
    exchange.expect_same("clicks", data.content_hash)
    last = _held_back(data.graph, options)
    name = f"{_SHARED}{data.content_hash[:16]}-{last}-{options.targets.value}"

    def make() -> tuple[ClickGraph, ClickGraph | None]:
        chosen = chosen_clicks(data, options)
        return chosen.graph, chosen.targets

    if last is None:  # as they are, which is mapped already
        chosen = chosen_clicks(data, options)
    else:
        chosen = ChosenClicks(last, *shared_clicks(make, options.out / name, exchange))
    if not options.validated or chosen.validation is not None:
        return chosen

    def divide() -> tuple[ClickGraph, ClickGraph]:
        split = _validation(data, chosen.graph, options)
        return split.train, split.targets

    folder = options.out / f"{name}-{options.hold_out}"
    train, targets = shared_clicks(divide, folder, exchange)
    assert targets is not None
    return replace(chosen, validation=ClickSplit(train, targets, "validation"))


def _fit_with_progress(
    prepared: PreparedRun, clicks: ChosenClicks, exchange: Exchange, device: torch.device
) -> Fit:
    """Train with a progress bar on a terminal, elsewhere with a line now and then."""
    options = prepared.options
    checkpoint, choice = options.out / CHECKPOINT, options.out / CHOICE
    if isinstance(exchange, GroupExchange):
        # The second of two trainings has begun where its checkpoint is there.
        note_attempt(options.out, checkpoint if checkpoint.exists() else choice, exchange)
    stopping = options.stopping()
    with _shown(exchange) as show:
        best = 0.0

        def look(step: int, loss: float, recall: float) -> None:
            nonlocal best
            best = max(best, recall)
            words = f"step {step}, loss {loss:.4f}, validation {100 * recall:.2f} %"
            show(f"{words}, best {100 * best:.2f} %", None)

        def progress(now: TrainProgress) -> None:
            again = "" if stopping is None else "all clicks: "
            show(f"{again}{now.step} of {now.steps} steps, loss {now.loss:.4f}", now)

        quiet = exchange.rank > 0
        fitting = Fitting(
            prepared.data,
            options.model_options(),
            options.settings(),
            exchange,
            device,
            choice=choice,
            checkpoint=checkpoint,
            checkpoint_every=options.checkpoint_every,
            look=None if quiet else look,
            progress=None if quiet else progress,
        )
        if stopping is None or clicks.validation is None:
            return fitting.fixed(clicks.graph, clicks.targets)
        if not options.refit:
            return fitting.validated(clicks.validation, stopping)
        return fitting.refitted(clicks.validation, stopping, clicks.graph)


@contextmanager
def _shown(exchange: Exchange) -> Iterator[Any]:
    """Yield a function that shows words, and how far a training of known length has come."""
    columns = (
        TextColumn("training"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[words]}"),
        TimeRemainingColumn(compact=True),
    )
    console = Console(stderr=True)
    quiet = exchange.rank > 0
    printed = time.perf_counter()
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("training", total=None, words="making ready")

        def show(words: str, now: TrainProgress | None) -> None:
            nonlocal printed
            if now is not None:
                bar.update(task, completed=now.step, total=now.steps)
            bar.update(task, words=words)
            if not console.is_terminal and time.perf_counter() - printed > _LINE_EVERY:
                printed = time.perf_counter()
                left = "" if now is None else f", about {duration(now.seconds_left)} left"
                print(f"{words}{left}", file=sys.stderr, flush=True)

        try:
            yield show
        except KeyboardInterrupt:
            bar.stop()
            if exchange.size == 1:  # else the process that started the ranks prints it
                print("interrupted; run the same command again to go on", file=sys.stderr)
            raise typer.Exit(130) from None


def _record(
    data: ClickData,
    clicks: ChosenClicks,
    fit: Fit,
    options: TrainOptions,
    device: torch.device,
) -> dict[str, Any]:
    graph, seconds = clicks.graph, sum(fit.seconds.values())
    tail = fit.losses[-max(fit.steps // 10, 1) :]
    steps = fit.steps
    if fit.plateau is not None and "refit" in fit.seconds:
        steps += fit.plateau.steps
    elif fit.plateau is not None:
        steps = fit.plateau.steps
    positives = steps * options.settings().batch_size
    record: dict[str, Any] = {
        "data": data.name,
        "content_hash": data.content_hash,
        "users": graph.num_users,
        "items": graph.num_items,
        "clicks": graph.num_clicks,
        "steps": fit.steps,
        "positives": positives,
        "seconds": seconds,
        "positives_per_second": positives / seconds,
        "loss": float(tail.mean()),
        "fingerprint": fit.fingerprint,
        "environment": environment(device),
    }
    stopping = options.stopping()
    if fit.plateau is not None and clicks.validation is not None and stopping is not None:
        record["validation"] = {
            "split": clicks.validation.name,
            "clicks": clicks.validation.targets.num_clicks,
            "n": stopping.n,
            **fit.plateau.facts(),
            "popular_recall": popular_recall(clicks.validation, stopping),
            "refitted": options.refit,
            "history": fit.plateau.history,
        }
    if device.type == "cuda":
        record["peak_bytes"] = torch.cuda.max_memory_allocated(device)
    return record


def print_run(out: Path, json: bool) -> None:
    """Print steps, seconds, loss and validation of a finished run."""
    record = jsonlib.loads((out / RECORD).read_text(encoding="utf-8"))
    if json:
        print(jsonlib.dumps({"run": str(out), **record}))
        return
    found = record.get("validation")
    if found:
        recall, popular = (100 * found[name] for name in ("best_recall", "popular_recall"))
        print(
            f"validation: Recall@{found['n']} {recall:.2f} % at step {found['best_step']:,}, "
            f"popular items {popular:.2f} % ({found['clicks']:,} clicks held out)"
        )
        if found["stopped"] == "limit":
            print("it ended at the last epoch, not by patience: more may help (--epochs-max)")
    again = " on all clicks, after validation," if found and found["refitted"] else ""
    print(
        f"{record['steps']:,} steps{again} in {record['seconds']:.1f} s, loss "
        f"{record['loss']:.4f} over the last tenth"
    )
    print(f"written to {out}")
