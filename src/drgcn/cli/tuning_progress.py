"""Runs searches with one bar for all their trials, or a line per trial if nobody watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from drgcn.studies.tuning.search import Search, SearchProgress, run_searches


def searched(searches: Sequence[Search], trials: int, timeout: float | None) -> int:
    """See :func:`run_searches`; shows how far it is on standard error."""
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
                left = duration_words(each * (now.in_all - now.done))
                print(f"{now.row}: {words}, about {left} left", file=sys.stderr, flush=True)

        try:
            return run_searches(searches, trials, timeout=timeout, progress=show)
        except KeyboardInterrupt:
            bar.stop()
            print("interrupted; run the same command again to go on", file=sys.stderr)
            raise typer.Exit(130) from None


def duration_words(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3.5 h``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
