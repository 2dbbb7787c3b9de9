"""One view of all jobs at once, with the time that is left."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from drgcn._format import duration
from drgcn.studies.experiment import Experiment
from drgcn.studies.reproduce.jobs import Job, JobReport
from drgcn.studies.reproduce.status import PlannedJob

_ENOUGH = 0.01  # of the budget, seen from one look to another: less says little of the rest


class JobClock:
    """Notes when a job started and how far it was when.

    Starting a process, reading data and a first epoch that compiles have a pace of their own, and
    a job may go on from a checkpoint. So the pace is taken between two looks at its epochs.

    Args:
        now: The time at its start, in seconds.
    """

    def __init__(self, now: float) -> None:
        self.started = now
        self._first: tuple[float, float] | None = None
        self._last: tuple[float, float] | None = None

    def moved(self, share: float, now: float) -> None:
        """Notes the share of its epochs that is done."""
        if share > 0.0:
            self._first = self._first or (share, now)
            self._last = (share, now)

    @property
    def pace(self) -> float | None:
        """Seconds for the whole budget of epochs; ``None`` until enough of it was seen."""
        if self._first is None or self._last is None:
            return None
        (before, start), (share, end) = self._first, self._last
        return (end - start) / (share - before) if share - before >= _ENOUGH else None

    @property
    def left(self) -> float | None:
        """Seconds for the epochs not done, if all of the budget will be used."""
        pace = self.pace
        return None if pace is None or self._last is None else pace * (1.0 - self._last[0])


@dataclass(frozen=True)
class Forecast:
    """What is known of the time left.

    Attributes:
        seconds: Seconds left.
        whole: Whether all jobs are in it. If not, it will take longer.
    """

    seconds: float
    whole: bool

    @property
    def words(self) -> str:
        """As people say it: ``about 12 min left``."""
        return f"{'about' if self.whole else 'more than'} {duration(self.seconds)} left"


class TimeLeft:
    """Expects of a job what others of its kind took in this run.

    Costs only compare jobs of one kind: the budget of epochs says little of the time of a model
    that stops long before its end, and nothing of that of another model. So nothing is said of
    a kind before a job of it is done, or before epochs of one that uses all of its budget were
    timed.

    Args:
        planned: The jobs to be run.
    """

    def __init__(self, planned: Iterable[PlannedJob]) -> None:
        jobs = {p.job.key: p for p in planned}
        costs = {key: p.cost for key, p in jobs.items()}
        usual = sum(costs.values()) / max(len(costs), 1) or 1.0
        self._costs = {key: cost or usual for key, cost in costs.items()}
        self._kinds = {key: _kind(p.job.experiment) for key, p in jobs.items()}
        self._steady = {key for key, p in jobs.items() if _uses_all_epochs(p.job.experiment)}
        self._shares = dict.fromkeys(jobs, 0.0)
        self._clocks: dict[str, JobClock] = {}
        self._todo = set(jobs)
        self._took: dict[str, tuple[float, float]] = {}  # by kind: seconds, and their cost

    def moved(self, key: str, share: float | None, now: float) -> None:
        """Notes the share of a job that is done by now; ``None`` if it was put back."""
        if share is None:
            self._clocks.pop(key, None)
        else:
            self._clocks.setdefault(key, JobClock(now)).moved(share, now)
        self._shares[key] = min(max(share or 0.0, 0.0), 1.0)

    def ended(self, key: str, seconds: float | None) -> None:
        """Notes the end of a job, and what it took; ``None`` if it was not trained to its end."""
        self._clocks.pop(key, None)
        self._shares[key] = 1.0
        self._todo.discard(key)
        if seconds is not None:
            before, cost = self._took.get(self._kinds[key], (0.0, 0.0))
            self._took[self._kinds[key]] = (before + seconds, cost + self._costs[key])

    @property
    def share(self) -> float:
        """The share of the whole cost that is done."""
        whole = sum(self._costs.values())
        return sum(self._costs[k] * s for k, s in self._shares.items()) / whole if whole else 1.0

    def forecast(self, now: float) -> Forecast | None:
        """What is left after now; ``None`` if nothing is, or as long as none of it was timed."""
        rates = self._rates()
        each = [self._left(key, rates, now) for key in self._todo]
        known = [seconds for seconds in each if seconds is not None]
        if not known:
            return None
        at_once = max(len(self._clocks), 1)
        # The longest job ends no sooner because others run beside it.
        return Forecast(max(sum(known) / at_once, max(known)), whole=len(known) == len(each))

    def _rates(self) -> dict[str, float]:
        """Seconds per cost of each kind that was timed."""
        rates = {kind: seconds / cost for kind, (seconds, cost) in self._took.items()}
        for key in self._steady & self._clocks.keys():
            pace = self._clocks[key].pace
            if pace is not None:
                rates.setdefault(self._kinds[key], pace / self._costs[key])
        return rates

    def _left(self, key: str, rates: dict[str, float], now: float) -> float | None:
        clock = self._clocks.get(key)
        if clock is not None and key in self._steady and clock.left is not None:
            return clock.left
        if self._kinds[key] not in rates:
            return None
        whole = rates[self._kinds[key]] * self._costs[key]
        if clock is None:
            return whole
        # One that has outlasted its like may stop at any moment, or not for long.
        left = whole - (now - clock.started)
        return left if left > 0.0 else None


def _kind(experiment: Experiment) -> str:
    """Jobs of one kind do the same work in an epoch, and stop by the same rule."""
    batch = experiment.batch_size is not None
    return f"{experiment.model} {experiment.rule} {experiment.patience} {batch}"


def _uses_all_epochs(experiment: Experiment) -> bool:
    return experiment.rule == "best-validation" and experiment.patience is None


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
