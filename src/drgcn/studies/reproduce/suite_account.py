"""What a run of a plan came to, counted from the reports of its jobs."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Protocol

from drgcn.studies.reproduce.job_report import JobReport
from drgcn.studies.reproduce.request import Request
from drgcn.studies.reproduce.stock import Stock
from drgcn.studies.reproduce.suite import where_it_ran
from drgcn.studies.reproduce.suite_record import Ending, SuiteRecord


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
