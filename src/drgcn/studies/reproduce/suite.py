"""Runs what is to be done of a plan by some backend, and keeps account of it.

A backend is anything that can be called as :class:`RunJobs` says. It decides where and how many
jobs run at once, and calls :func:`drgcn.studies.reproduce.job.run_job` for each. That function
skips seeds on record, takes the job's lock, goes on from checkpoints and writes records, so a
backend keeps no state and writes no file. What it must do:

* yield exactly one :class:`~drgcn.studies.reproduce.job_report.JobReport` for every job, in
  any order, as jobs end. A job that raises is a report with an ``error``, not an exception;
* try a job once more if its worker died, and report an error if that dies too;
* start jobs in the order given, which has the costly ones first;
* stop its workers when the iterator is closed or an exception passes through it.

:func:`attempt` does the first of these for one job: a backend sends it to a worker and hands on
what it returns. Failures, progress view and suite record are made from the reports by
:mod:`drgcn.studies.reproduce.suite`, the same for every backend.
"""

from __future__ import annotations

import datetime
import errno
import os
import re
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from drgcn.errors import DrgcnWarning
from drgcn.studies.records import environment
from drgcn.studies.reproduce.job import Job, JobBusyError, run_job
from drgcn.studies.reproduce.outcomes import (
    Ending,
    Failure,
    JobReport,
    SuiteRecord,
    clear_failure,
    failure_path,
)
from drgcn.studies.reproduce.plan import Request
from drgcn.studies.reproduce.progress import ProgressView
from drgcn.studies.reproduce.status import Stock
from drgcn.training import Progress

Watch = Callable[[Job, float | None], None]
"""Told the share of a job that is done, from 0 when it starts; ``None`` if it was put back."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CUT_SHORT = re.compile(r"\d+ requested and \d+ written")


class RunJobs(Protocol):
    """Runs jobs and reports on each as it ends."""

    def __call__(
        self,
        jobs: Sequence[Job],
        out: Path,
        *,
        data_root: Path | None = None,
        device: str = "cpu",
        watch: Watch | None = None,
    ) -> Iterator[JobReport]:
        """Yields one report per job.

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
    progress: Callable[[Progress], None] | None = None,
    patience: float | None = None,
) -> JobReport:
    """Runs a job and reports how it ended, whatever went wrong.

    Args:
        job: What to run.
        out: Folder of the records.
        data_root: Folder of the datasets.
        device: Where to train.
        progress: See :func:`drgcn.fit`.
        patience: See :func:`run_job`.

    Raises:
        JobBusyError: If another runner has the job in hand for longer than ``patience``.
    """
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DrgcnWarning)
        try:
            outcome = run_job(
                job, out, data_root=data_root, device=device, progress=progress, patience=patience
            )
            report = JobReport(job, trained=outcome.trained)
        except JobBusyError:
            raise
        except Exception as error:
            words = f"{type(error).__name__}: {error}".strip().splitlines()[0]
            full = disk_is_full(error)
            report = JobReport(job, error=words, traceback=traceback.format_exc(), disk_full=full)
    said = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, DrgcnWarning))
    return replace(report, seconds=time.perf_counter() - start, notes=tuple(said))


def disk_is_full(error: BaseException) -> bool:
    """Whether an error says that there is no room to write, be it the operating system's own.

    Libraries that write files pass on the system's words and not its number, or, as NumPy, only
    how much was written of what.
    """
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    words = str(error)
    if any(f"os error {number}" in words or os.strerror(number) in words for number in _FULL):
        return True
    return isinstance(error, OSError) and bool(_CUT_SHORT.fullmatch(words))


def run_suite(
    stock: Stock,
    out: Path,
    run_jobs: RunJobs,
    *,
    view: ProgressView,
    data_root: Path | None = None,
    device: str = "cpu",
) -> tuple[list[JobReport], Ending]:
    """Runs jobs to their end, to a full disk, or to Ctrl-C.

    A job that fails is recorded under ``out/failures`` and the rest goes on; one that succeeds
    clears an earlier failure of its own.

    Returns:
        Reports of the jobs that have ended, and how it came to an end.
    """
    reports: list[JobReport] = []
    for planned in stock.done:
        clear_failure(planned.job, out)
    jobs = [planned.job for planned in stock.todo]
    try:
        # Closed at once, however this ends: a backend stops its workers then.
        running = run_jobs(jobs, out, data_root=data_root, device=device, watch=view.moved)
        with closing(cast("Generator[JobReport]", running)):
            for report in running:
                reports.append(report)
                view.ended(report)
                if report.disk_full:
                    return reports, "disk full"
                _keep_account(report, out, device)
    except KeyboardInterrupt:
        return reports, "interrupted"
    except OSError as error:
        if not disk_is_full(error):
            raise
        return reports, "disk full"
    return reports, "finished"


def where_it_ran(device: str) -> dict[str, Any]:
    """Versions and hardware, without what is this process's own and not its workers'."""
    found: dict[str, Any]
    if device.startswith("cuda") and not torch.cuda.is_available():  # it is the cluster's
        found = environment(torch.device("cpu")) | {"device": "GPUs of a cluster"}
    else:
        found = environment(torch.device(device))
    return {key: value for key, value in found.items() if key != "threads"}


def _keep_account(report: JobReport, out: Path, device: str) -> None:
    if report.error is None:
        clear_failure(report.job, out)
        return
    Failure.of(report, where_it_ran(device)).save(failure_path(report.job, out))


class _Runner(Protocol):
    @property
    def workers(self) -> int: ...

    @property
    def threads_each(self) -> int: ...


def account(
    request: Request,
    runner: _Runner,
    stock: Stock,
    reports: Sequence[JobReport],
    ending: Ending,
    *,
    started: datetime.datetime,
    wall: float,
    device: str,
) -> SuiteRecord:
    """The record of a run.

    Args:
        request: What was asked for.
        runner: Who ran it.
        stock: What was there and what was missing at the start.
        reports: How jobs ended.
        ending: How all of it ended.
        started: When it started.
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
        seeds_recorded=stock.recorded_seeds,
        environment=where_it_ran(device),
    )
