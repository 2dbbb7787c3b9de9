"""How long a plan will still take, from what this run has measured of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drgcn.studies.experiment import Experiment
from drgcn.studies.reproduce.job_clock import JobClock
from drgcn.studies.reproduce.planned_job import PlannedJob


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
        return f"{'about' if self.whole else 'more than'} {duration_words(self.seconds)} left"


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


def duration_words(seconds: float) -> str:
    """A time as people say it: ``45 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def _kind(experiment: Experiment) -> str:
    """Jobs of one kind do the same work in an epoch, and stop by the same rule."""
    batch = experiment.batch_size is not None
    return f"{experiment.model} {experiment.rule} {experiment.patience} {batch}"


def _uses_all_epochs(experiment: Experiment) -> bool:
    return experiment.rule == "best-validation" and experiment.patience is None
