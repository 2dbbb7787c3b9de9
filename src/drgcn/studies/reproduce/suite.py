"""Runs the open jobs of a plan on a backend, and records failures and the run as a whole."""

from __future__ import annotations

import datetime
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, cast

import torch

from drgcn._io import disk_is_full
from drgcn.records import environment
from drgcn.studies.reproduce.backend import RunJobs, clear_left
from drgcn.studies.reproduce.jobs import (
    Ending,
    Failure,
    JobReport,
    SuiteRecord,
    clear_failure,
    failure_path,
)
from drgcn.studies.reproduce.plan import Request
from drgcn.studies.reproduce.progress import ProgressView
from drgcn.studies.reproduce.status import PlanStatus


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
