"""What of a plan is on record, what is to be done, and what cannot be done here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drgcn.data import load
from drgcn.errors import DrgcnWarning, MissingDataError
from drgcn.studies.reproduce.cost import CostEstimate, graph_size
from drgcn.studies.reproduce.job import Job
from drgcn.studies.reproduce.planned_job import PlannedJob
from drgcn.studies.run_record import RunRecord


@dataclass(frozen=True)
class Stock:
    """The jobs of a plan, sorted by what is left to do.

    Attributes:
        todo: Jobs with seeds to train, the costliest first: then parallel workers end together.
        done: Jobs of which all seeds are on record.
        absent: Jobs whose data is not at hand, with the reason.
    """

    todo: tuple[PlannedJob, ...]
    done: tuple[PlannedJob, ...]
    absent: tuple[PlannedJob, ...]

    @property
    def recorded_seeds(self) -> int:
        """How many of the seeds asked for are on record already."""
        jobs = (*self.todo, *self.done)
        return sum(len(planned.job.seeds) - len(planned.missing) for planned in jobs)

    @property
    def missing_seeds(self) -> int:
        """How many are to be trained."""
        return sum(len(planned.missing) for planned in self.todo)

    @property
    def reasons(self) -> dict[str, str]:
        """Why the data of a dataset is not at hand, and how to get it."""
        return {p.job.experiment.dataset: p.reason or "" for p in self.absent}


def take_stock(
    jobs: Sequence[Job],
    records: Sequence[RunRecord],
    *,
    data_root: Path | None = None,
    offline: bool = False,
    reading: Callable[[str], None] = lambda dataset: None,
) -> Stock:
    """Holds jobs against records, by experiment and content of the data.

    The data of every job is read once: only its content says whether a record is of the same
    data. Other trouble than files that are not there is left to the job, which will fail with it.

    Args:
        jobs: The plan.
        records: What was run so far.
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
    absent: list[PlannedJob] = []
    for job in jobs:
        experiment = job.experiment
        source = (experiment.dataset, experiment.split, job.normalize)
        if source not in facts:
            reading(experiment.dataset)
            facts[source] = _facts(job, data_root, offline)
        found = facts[source]
        if isinstance(found, str):
            absent.append(PlannedJob(job, None, job.seeds, reason=found))
        elif found is None:
            todo.append(PlannedJob(job, None, job.seeds))
        else:
            identity = experiment.identity(found["content_hash"])
            there = known.get(identity, set())
            missing = tuple(seed for seed in job.seeds if seed not in there)
            cost = costs.of(experiment, graph_size(found), len(missing))
            (todo if missing else done).append(PlannedJob(job, identity, missing, cost))
    todo.sort(key=lambda planned: -planned.cost)
    return Stock(tuple(todo), tuple(done), tuple(absent))


def _facts(job: Job, root: Path | None, offline: bool) -> dict[str, Any] | str | None:
    """What the data says of itself; words if it is not at hand; nothing if it is damaged."""
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
