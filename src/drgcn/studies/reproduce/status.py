"""Jobs of a plan held against the records: status, expected costs and results."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from drgcn.data import load
from drgcn.errors import DrgcnWarning, MissingDataError
from drgcn.studies.comparison import gain, summarize
from drgcn.studies.experiment import Experiment
from drgcn.studies.paper.table import PaperTable, TableCell
from drgcn.studies.records import RunRecord
from drgcn.studies.report.tables import Row, merge, one_build
from drgcn.studies.reproduce.jobs import Job

Results = Mapping[str, Row]
"""Rows of all jobs by their keys."""


@dataclass(frozen=True)
class PlannedJob:
    """A job of a plan, with the seeds that no record has.

    Attributes:
        job: The job.
        identity: The experiment on its very data, as records have it; ``None`` if the data
            could not be read.
        missing: Seeds that no record has.
        cost: Expected cost of training them, see :class:`CostEstimate`.
        reason: Reason why it cannot be run; ``None`` if it can.
    """

    job: Job
    identity: str | None
    missing: tuple[int, ...]
    cost: float = 0.0
    reason: str | None = None


@dataclass(frozen=True)
class PlanStatus:
    """Jobs of a plan: done, to do, lacking data.

    Attributes:
        todo: Jobs with seeds to train, the costliest first: then parallel workers end together.
        done: Jobs of which all seeds are on record.
        lacking_data: Jobs whose data is not at hand, with the reason.
    """

    todo: tuple[PlannedJob, ...]
    done: tuple[PlannedJob, ...]
    lacking_data: tuple[PlannedJob, ...]

    @property
    def runnable(self) -> tuple[PlannedJob, ...]:
        """Jobs whose data is at hand, done or not."""
        return (*self.todo, *self.done)

    @property
    def recorded_seeds(self) -> int:
        """Number of the seeds asked for that are on record already."""
        return sum(len(planned.job.seeds) - len(planned.missing) for planned in self.runnable)

    @property
    def missing_seeds(self) -> int:
        """Number of seeds to be trained."""
        return sum(len(planned.missing) for planned in self.todo)

    @property
    def reasons(self) -> dict[str, str]:
        """Reason why the data of each dataset is not at hand, and how to get it."""
        return {p.job.experiment.dataset: p.reason or "" for p in self.lacking_data}


def plan_status(
    jobs: Sequence[Job],
    records: Sequence[RunRecord],
    *,
    data_root: Path | None = None,
    offline: bool = False,
    reading: Callable[[str], None] = lambda dataset: None,
) -> PlanStatus:
    """Hold jobs against records, by experiment and content of the data.

    Every dataset is read once: only its content says whether a record is of the same data. Errors
    other than missing files are left to the job, which will fail with them.

    Args:
        jobs: The plan.
        records: Records of earlier runs.
        data_root: Folder of the datasets.
        offline: Never download.
        reading: Told the name of each dataset before it is read.
    """
    known: dict[str, set[int]] = {}
    for record in records:
        known.setdefault(record.identity, set()).update(record.seeds)
    costs = CostEstimate(records)
    facts: dict[tuple[str, str, str | None], dict[str, Any] | str | None] = {}
    todo: list[PlannedJob] = []
    done: list[PlannedJob] = []
    lacking_data: list[PlannedJob] = []
    for job in jobs:
        experiment = job.experiment
        source = (experiment.dataset, experiment.split, job.normalize)
        if source not in facts:
            reading(experiment.dataset)
            facts[source] = _facts(job, data_root, offline)
        found = facts[source]
        if isinstance(found, str):
            lacking_data.append(PlannedJob(job, None, job.seeds, reason=found))
        elif found is None:
            todo.append(PlannedJob(job, None, job.seeds))
        else:
            identity = experiment.identity(found["content_hash"])
            recorded = known.get(identity, set())
            missing = tuple(seed for seed in job.seeds if seed not in recorded)
            cost = costs.of(experiment, graph_size(found), len(missing))
            (todo if missing else done).append(PlannedJob(job, identity, missing, cost))
    todo.sort(key=lambda planned: -planned.cost)
    return PlanStatus(tuple(todo), tuple(done), tuple(lacking_data))


def _facts(job: Job, root: Path | None, offline: bool) -> dict[str, Any] | str | None:
    """Return facts about the data; a sentence if files are missing; ``None`` if it is damaged."""
    experiment = job.experiment
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DrgcnWarning)  # the job will say it
        try:
            # Not kept: the workers read it for themselves, and it may be large.
            data = load(
                experiment.dataset,
                root,
                split=experiment.split,
                normalize=job.normalize,
                offline=offline,
            )
        except MissingDataError as error:
            return str(error)
        except Exception:  # the job will fail with it, and be recorded with its traceback
            return None
    found: dict[str, Any] = data.dataset.to_dict()
    return found


class CostEstimate:
    """Expected cost of a job, from records of similar ones.

    The nearest records that there are decide: those of the same model on the same split with
    the same budget, else those of the same model, else all; the latter two by epochs and by size
    of the graph. Without any record, epochs times size stand for the cost. That is enough to put
    jobs in order and to compare those of one model; it is no promise of seconds.

    Args:
        records: Records of earlier runs.
    """

    def __init__(self, records: Iterable[RunRecord]) -> None:
        self._alike: dict[tuple[str, str, str, int], list[float]] = {}
        self._rates: dict[str | None, list[float]] = {}
        for record in records:
            seconds = record.seconds / len(record.seeds)
            self._alike.setdefault(_kind(record.experiment), []).append(seconds)
            work = record.experiment.epochs * graph_size(record.data)
            if work > 0:
                for key in (record.experiment.model, None):
                    self._rates.setdefault(key, []).append(seconds / work)

    def of(self, experiment: Experiment, size: int, seeds: int) -> float:
        """Return the cost of training some seeds on a graph of a size, see :func:`graph_size`."""
        alike = self._alike.get(_kind(experiment))
        if alike:
            return seeds * median(alike)
        rates = self._rates.get(experiment.model) or self._rates.get(None) or [1.0]
        return seeds * experiment.epochs * size * median(rates)


def graph_size(facts: dict[str, int]) -> int:
    """Return the number of nodes and edges, from the facts of a record or a dataset."""
    return int(facts.get("nodes", 0)) + int(facts.get("edges", 0))


def _kind(experiment: Experiment) -> tuple[str, str, str, int]:
    return (experiment.dataset, experiment.split, experiment.model, experiment.epochs)


def results_of(planned: Iterable[PlannedJob], records: Iterable[RunRecord]) -> Results:
    """Return the row of every job that has one: of the very experiment and data, of one build,
    and of seeds asked for."""
    rows = {row[0].identity: row for row in merge(list(records))}
    found = {}
    for each in planned:
        if each.identity in rows:
            record, known = rows[each.identity]
            seeds = {seed: known[seed] for seed in each.job.seeds if seed in known}
            found[each.job.key] = (record, seeds)
    return found


def filled_cells(table: PaperTable, results: Results) -> dict[tuple[str, str], str]:
    """Return the recorded results of the cells of a table, in words, by row and column.

    Cells without a result are left out. Times are left to the report: they depend on hardware and
    on what ran beside.
    """
    found = {}
    for cell in table.cells:
        words = _words(cell, results)
        if words:
            found[cell.row, cell.column] = words
    return found


def _words(cell: TableCell, results: Results) -> str:
    if cell.job is None:
        return ""
    own = Job(cell.job.experiment, cell.job.normalize, ())
    row = results.get(own.key)
    if row is None or not row[1]:
        return ""
    summary = summarize(row[1])
    number = f"n={summary.seeds}"
    match cell.quantity:
        case "test":
            return f"{summary.words(2)} ({number})"
        case "k1" | "k2" if len(summary.k) >= int(cell.quantity[1]):
            return f"{summary.k[int(cell.quantity[1]) - 1]:.2f} ({number})"
        case "gain":
            plain = Job(replace(cell.job.experiment, reweight=None), cell.job.normalize, ())
            other = results.get(plain.key)
            if other and one_build(row, other) and row[1].keys() & other[1].keys():
                return f"{gain(row[1], other[1]).mean:+.2f} ({number})"
    return f"recorded ({number})"
