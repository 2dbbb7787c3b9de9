"""Runs what is to be done of a plan, by whatever backend, and keeps account of failures."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import torch

from drgcn.studies.environment import environment
from drgcn.studies.reproduce.backend import RunJobs, disk_is_full
from drgcn.studies.reproduce.failure import Failure, clear_failure, failure_path
from drgcn.studies.reproduce.job_report import JobReport
from drgcn.studies.reproduce.progress_view import ProgressView
from drgcn.studies.reproduce.stock import Stock
from drgcn.studies.reproduce.suite_record import Ending


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
