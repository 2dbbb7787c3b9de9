"""What a way of running jobs has to offer, be it processes of this machine or a cluster.

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

import errno
import os
import re
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from drgcn.errors import DrgcnWarning
from drgcn.studies.reproduce.job import Job, run_job
from drgcn.studies.reproduce.job_lock import JobBusyError
from drgcn.studies.reproduce.job_report import JobReport
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
