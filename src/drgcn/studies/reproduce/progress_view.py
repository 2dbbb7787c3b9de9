"""One view of all jobs at once: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from drgcn.studies.reproduce.job import Job
from drgcn.studies.reproduce.job_report import JobReport
from drgcn.studies.reproduce.planned_job import PlannedJob
from drgcn.studies.reproduce.time_left import TimeLeft


class ProgressView:
    """Shows where a plan stands, on standard error.

    Args:
        planned: The jobs to be run.
        console: Where to show it. (default: standard error)
        every: Seconds between two lines where there is no terminal.
    """

    def __init__(
        self, planned: Sequence[PlannedJob], console: Console | None = None, every: float = 30.0
    ) -> None:
        self.console = console or Console(stderr=True)
        self.every = every
        self.left = TimeLeft(planned)
        self.jobs, self.ended_jobs, self.failed_jobs = len(planned), 0, 0
        self.said = time.monotonic()
        self.running: dict[str, TaskID | None] = {}
        self.notes: set[str] = set()
        self.bars: Progress | None = None
        if self.console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=16),
                TaskProgressColumn(),
                TextColumn("{task.fields[now]}"),
            )
            self.bars = Progress(*columns, console=self.console, transient=True)
            self.whole = self.bars.add_task(f"all {self.jobs} jobs", total=1.0, now="")

    def __enter__(self) -> ProgressView:
        if self.bars is not None:
            self.bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bars is not None:
            self.bars.stop()

    def moved(self, job: Job, share: float | None) -> None:
        """Notes how far a job is; ``None`` if it was put back."""
        self.left.moved(job.key, share, time.monotonic())
        if share is None:
            self._remove(job)
        elif self.bars is None:
            self.running[job.key] = None
        elif job.key not in self.running:
            self.running[job.key] = self.bars.add_task(escape(job.name), total=1.0, now="")
        else:
            task = self.running[job.key]
            assert task is not None
            self.bars.update(task, completed=share)
        self._show()

    def ended(self, report: JobReport) -> None:
        """Notes the end of a job, and says it aloud if it failed."""
        trained = report.error is None and bool(report.trained)
        self.left.ended(report.job.key, report.seconds if trained else None)
        self._remove(report.job)
        self.ended_jobs += 1
        if report.error is not None:
            self.failed_jobs += 1
            self.say(f"failed: {report.job.name}: {report.error}")
        for note in report.notes:
            if note not in self.notes:
                self.notes.add(note)
                self.say(f"warning: {note}")
        self._show()

    def say(self, line: str) -> None:
        """Prints a line above the bars."""
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    @property
    def words(self) -> str:
        """Where things stand, in one line."""
        words = f"{self.ended_jobs} of {self.jobs} jobs done, {len(self.running)} running"
        if self.failed_jobs:
            words += f", {self.failed_jobs} failed"
        forecast = self.left.forecast(time.monotonic())
        return words if forecast is None else f"{words}; {forecast.words}"

    def _remove(self, job: Job) -> None:
        task = self.running.pop(job.key, None)
        if self.bars is not None and task is not None:
            self.bars.remove_task(task)

    def _show(self) -> None:
        now = time.monotonic()
        if self.bars is not None:
            self.bars.update(self.whole, completed=self.left.share, now=self.words)
        elif now - self.said >= self.every:
            self.said = now
            self.say(self.words)
