"""Progress of all jobs of a plan at once, and a forecast of the time left."""

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
    """Start of a job, and the times at which shares of its epochs were done.

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
        """Note the share of its epochs that is done."""
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
    """Estimate of the time left.

    Attributes:
        seconds: Seconds left.
        whole: Whether all jobs are in it. If not, it will take longer.
    """

    seconds: float
    whole: bool

    @property
    def words(self) -> str:
        """Description for people: ``about 12 min left``."""
        return f"{'about' if self.whole else 'more than'} {duration(self.seconds)} left"


class TimeLeft:
    """Forecast of the time left, from jobs of the same kind in this run.

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
        """Note the share of a job that is done by now; ``None`` if it was put back."""
        if share is None:
            self._clocks.pop(key, None)
        else:
            self._clocks.setdefault(key, JobClock(now)).moved(share, now)
        self._shares[key] = min(max(share or 0.0, 0.0), 1.0)

    def ended(self, key: str, seconds: float | None) -> None:
        """Note the end of a job and its seconds; ``None`` if it was not trained to its end."""
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
        """Estimate the time left; ``None`` if no job is left, or none of them was timed yet."""
        rates = self._rates()
        each = [self._left(key, rates, now) for key in self._todo]
        known = [seconds for seconds in each if seconds is not None]
        if not known:
            return None
        at_once = max(len(self._clocks), 1)
        # The longest job ends no sooner because others run beside it.
        return Forecast(max(sum(known) / at_once, max(known)), whole=len(known) == len(each))

    def _rates(self) -> dict[str, float]:
        """Return the seconds per cost of each kind that was timed."""
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
    """Return the kind of a job: equal for the same work in an epoch and the same stopping rule."""
    batch = experiment.batch_size is not None
    return f"{experiment.model} {experiment.rule} {experiment.patience} {batch}"


def _uses_all_epochs(experiment: Experiment) -> bool:
    return experiment.rule == "best-validation" and experiment.patience is None


class ProgressView:
    """Progress bars of a plan on a terminal, or a line now and then elsewhere.

    Args:
        planned: The jobs to be run.
        console: Where to show it. (default: standard error)
        every: Seconds between two lines where there is no terminal.
        quiet: Show failures and warnings alone.
    """

    def __init__(
        self,
        planned: Sequence[PlannedJob],
        console: Console | None = None,
        every: float = 30.0,
        quiet: bool = False,
    ) -> None:
        self.console = console or Console(stderr=True)
        self.every, self.quiet = every, quiet
        self.left = TimeLeft(planned)
        self.jobs, self.ended_jobs, self.failed_jobs = len(planned), 0, 0
        self.printed_at = time.monotonic()
        self.running: dict[str, TaskID | None] = {}
        self.notes: set[str] = set()
        self.bars: Progress | None = None
        if self.console.is_terminal and not quiet:
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
        """Note the share of a job that is done; ``None`` if it was put back."""
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
        """Note the end of a job, and print its error if it failed."""
        trained = report.error is None and bool(report.trained)
        self.left.ended(report.job.key, report.seconds if trained else None)
        self._remove(report.job)
        self.ended_jobs += 1
        if report.error is not None:
            self.failed_jobs += 1
            self.print_line(f"failed: {report.job.name}: {report.error}")
        for note in report.notes:
            if note not in self.notes:
                self.notes.add(note)
                self.print_line(f"warning: {note}")
        self._show()

    def print_line(self, line: str) -> None:
        """Print a line above the bars."""
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    @property
    def words(self) -> str:
        """Jobs done, running and failed, and the time left, in one line."""
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
        elif not self.quiet and now - self.printed_at >= self.every:
            self.printed_at = now
            self.print_line(self.words)
