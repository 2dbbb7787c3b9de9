"""Runs one job under its lock, defines the protocol of backends that run many, and runs a plan on
one of them.

A backend is anything that can be called as :class:`RunJobs` says. It decides where and how many
jobs run at once, and calls :func:`run_job` for each. That function skips seeds on record, takes
the job's lock, goes on from checkpoints and writes records, so a backend keeps no state and
writes no file. It must:

* yield exactly one :class:`~drgcn.studies.reproduce.jobs.JobReport` for every job, in
  any order, as jobs end. A job that raises is a report with an ``error``, not an exception;
* try a job once more if its worker died, and report an error if that dies too;
* start jobs in the order given, which has the costly ones first;
* stop its workers when the iterator is closed or an exception passes through it.

:func:`attempt` does the first of these for one job: a backend sends it to a worker and hands on
what it returns. :func:`run_suite` and :func:`suite_record` make failures, progress view and suite
record from the reports, the same for every backend.
"""

from __future__ import annotations

import datetime
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from torch_geometric.data import Data

from drgcn._io import LockedError, disk_is_full, lock, sweep
from drgcn.data import load
from drgcn.data.downloader import data_root as chosen_root
from drgcn.errors import DrgcnWarning, was_interrupted
from drgcn.records import environment
from drgcn.studies.reproduce.jobs import (
    FAILURES,
    SUITES,
    Ending,
    Failure,
    Job,
    JobReport,
    SuiteRecord,
    clear_failure,
    failure_path,
)
from drgcn.studies.run import Outcome, clear_recorded, run
from drgcn.training import Progress

if TYPE_CHECKING:
    from drgcn.studies.reproduce.plan import Request
    from drgcn.studies.reproduce.progress import ProgressView
    from drgcn.studies.reproduce.status import PlanStatus

Watch = Callable[[Job, float | None], None]
"""Told the share of a job that is done, from 0 when it starts; ``None`` if it was put back."""

OUT_OF_MEMORY = ("MemoryError", "OutOfMemoryError")
"""Types of errors after which a job is worth another attempt, with more memory to itself."""


class RunJobs(Protocol):
    """Function that runs jobs and reports on each as it ends."""

    def __call__(
        self,
        jobs: Sequence[Job],
        out: Path,
        *,
        data_root: Path | None = None,
        device: str = "cpu",
        watch: Watch | None = None,
    ) -> Iterator[JobReport]:
        """Yield one report per job.

        Args:
            jobs: What to run, the costly ones first.
            out: Folder of the records.
            data_root: Folder of the datasets, see :func:`drgcn.load`.
            device: Where each job trains: ``cpu`` or ``cuda``.
            watch: Told now and then how far a job is. A backend may leave it alone.
        """
        ...


def attempt(
    job: Job,
    out: Path,
    *,
    data_root: Path | None = None,
    device: str = "cpu",
    on_share: Callable[[float], None] | None = None,
    patience: float | None = None,
) -> JobReport:
    """Run a job and report how it ended, whatever went wrong.

    Args:
        job: What to run.
        out: Folder of the records.
        data_root: Folder of the datasets.
        device: Where to train.
        on_share: Told the share of its epochs that is done, a few times a second.
        patience: See :func:`run_job`.

    Raises:
        LockedError: If another runner is running the job for longer than ``patience``.
    """

    def progress(now: Progress) -> None:
        if on_share is not None:
            on_share(now.epochs_done / max(now.epochs_in_all, 1))

    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DrgcnWarning)
        try:
            outcome = run_job(
                job, out, data_root=data_root, device=device, progress=progress, patience=patience
            )
            report = JobReport(job, trained=outcome.trained)
        except LockedError:
            raise
        except Exception as error:  # recorded with its traceback: other jobs go on
            if was_interrupted(error):
                raise KeyboardInterrupt from error
            words = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            full = disk_is_full(error)
            report = JobReport(job, error=words, traceback=traceback.format_exc(), disk_full=full)
    notes = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, DrgcnWarning))
    return replace(report, seconds=time.perf_counter() - start, notes=tuple(notes))


def run_job(
    job: Job,
    out: Path,
    *,
    data_root: Path | None = None,
    device: str = "cpu",
    progress: Callable[[Progress], None] | None = None,
    patience: float | None = None,
) -> Outcome:
    """Train what is missing of a job and record it in ``out``.

    Every backend calls this function, in this process or another, here or on a cluster, so
    records are the same whoever calls it. While it runs, the job is locked, so that
    two runners on one folder do not do the same work twice.

    Args:
        job: What to run.
        out: Folder of the records.
        data_root: Folder of the datasets, see :func:`drgcn.load`.
        device: Where to train.
        progress: See :func:`drgcn.fit`.
        patience: Seconds to wait if another process is running the job; as long as it takes if not
            given.

    Raises:
        LockedError: If the other process is still at it after that.
    """
    data = job_data(job, data_root)
    identity = job.experiment.identity(data.dataset.content_hash)
    with lock(out / ".locks" / identity, patience):
        _clear_partial(out, identity)
        try:
            return run(job.experiment, data, job.seeds, out, device=device, progress=progress)
        except BaseException:
            _clear_partial(out, identity)  # on a full disk it is in the way of others
            raise


def clear_left(out: Path) -> None:
    """Remove what killed runners left of jobs that are on record, and locks that nobody holds."""
    clear_recorded(out)
    for path in (out / ".locks").glob("*"):
        with suppress(LockedError), lock(path, 0):
            pass
    sweep(out / FAILURES, out / SUITES)


def job_data(job: Job, data_root: Path | None = None) -> Data:
    """Load the data of a job; the last datasets read are kept, for many jobs share one."""
    experiment = job.experiment
    return _data(experiment.dataset, experiment.split, job.normalize, chosen_root(data_root))


@lru_cache(maxsize=4)
def _data(dataset: str, split: str, normalize: str | None, root: Path) -> Data:
    return load(dataset, root, split=split, normalize=normalize)


def _clear_partial(out: Path, identity: str) -> None:
    """Remove half-written records and checkpoints of a job, whose lock the caller holds."""
    for pattern in (f".*-{identity[:8]}-seeds-*.partial", f".checkpoints/.{identity}.*.partial"):
        for partial in out.glob(pattern):
            partial.unlink(missing_ok=True)


def run_suite(
    status: PlanStatus,
    out: Path,
    run_jobs: RunJobs,
    *,
    view: ProgressView,
    data_root: Path | None = None,
    device: str = "cpu",
) -> tuple[list[JobReport], Ending]:
    """Run jobs to their end, to a full disk, or to Ctrl-C.

    A job that fails is recorded under ``out/failures`` and the rest goes on; one that succeeds
    clears an earlier failure of its own.

    Returns:
        Reports of the jobs that have ended, and the ending of the whole.
    """
    reports: list[JobReport] = []
    jobs = [planned.job for planned in status.todo]
    try:
        clear_left(out)
        for planned in status.done:
            clear_failure(planned.job, out)
        # Closed at once, however this ends: a backend stops its workers then.
        running = run_jobs(jobs, out, data_root=data_root, device=device, watch=view.moved)
        with closing(cast("Generator[JobReport]", running)):
            for report in running:
                reports.append(report)
                view.ended(report)
                if report.disk_full:
                    return reports, "disk full"
                _record_failure(report, out, device)
    except KeyboardInterrupt:
        return reports, "interrupted"
    except OSError as error:
        if not disk_is_full(error):
            raise
        return reports, "disk full"
    return reports, "finished"


def where_it_ran(device: str) -> dict[str, Any]:
    """Return versions and hardware, without what is this process's own and not its workers'."""
    found: dict[str, Any]
    if device.startswith("cuda") and not torch.cuda.is_available():  # it is the cluster's
        found = environment(torch.device("cpu")) | {"device": "GPUs of a cluster"}
    else:
        found = environment(torch.device(device))
    return {key: value for key, value in found.items() if key != "threads"}


def _record_failure(report: JobReport, out: Path, device: str) -> None:
    if report.error is None:
        clear_failure(report.job, out)
        return
    Failure.of(report, where_it_ran(device)).save(failure_path(report.job, out))


class _Runner(Protocol):
    @property
    def workers(self) -> int: ...

    @property
    def threads_each(self) -> int: ...


def suite_record(
    request: Request,
    runner: _Runner,
    status: PlanStatus,
    reports: Sequence[JobReport],
    ending: Ending,
    *,
    started: datetime.datetime,
    wall: float,
    device: str,
) -> SuiteRecord:
    """Return the record of a run.

    Args:
        request: The tables and jobs asked for.
        runner: The backend.
        status: Jobs done and to do at the start.
        reports: Reports of the jobs that have ended.
        ending: Ending of the whole.
        started: Time of the start.
        wall: Seconds from then to the end.
        device: Where jobs trained.
    """
    trained = [report for report in reports if report.trained]
    own = sum(bool(report.trained) or report.error is not None for report in reports)
    return SuiteRecord(
        started=started.isoformat(),
        ending=ending,
        tables=[table.name for table in request.tables],
        only=request.only,
        controls=request.controls,
        workers=runner.workers,
        threads=runner.threads_each,
        wall_seconds=round(wall, 3),
        job_seconds=round(sum(report.seconds for report in reports), 3),
        jobs=own,
        jobs_of_others=len(reports) - own,
        failed=sum(report.error is not None for report in reports),
        cells=request.cells_of(report.job.key for report in trained),
        seeds_trained=sum(len(report.trained) for report in trained),
        seeds_recorded=status.recorded_seeds,
        environment=where_it_ran(device),
    )
