"""What runs on a node of a Ray cluster: one job, in a folder that the node can write to."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from drgcn.data.catalog import describe
from drgcn.data.downloader import data_root as chosen_root
from drgcn.data.downloader import files_of
from drgcn.errors import DrgcnError, InputError
from drgcn.studies.environment import source_hash
from drgcn.studies.reproduce.backend import attempt
from drgcn.studies.reproduce.job import Job, job_data
from drgcn.studies.reproduce.job_report import JobReport
from drgcn.studies.reproduce.ray_errand import Delivery, Errand
from drgcn.training import Progress

_MEMORY = ("MemoryError", "OutOfMemoryError")
_TELL_EVERY = 1.0  # seconds


class MemoryRanOutError(DrgcnError):
    """A job found too little memory beside others; holds its report. Ray tries it again."""


def run_on_node(errand: Errand, tell: Callable[[float], None]) -> Delivery:
    """Runs a job where this process is.

    If ``out`` is shared, the job is run in it as by any process. If not, it is run in a folder
    under ``~/.cache/drgcn/cluster``, which keeps checkpoints until the job is done, and its
    records are sent back as text. Nothing is written to a folder called ``out`` that only
    happens to exist here.

    Args:
        errand: What to do.
        tell: Told the share that is done, now and then.

    Raises:
        MemoryRanOutError: If there was too little memory.
    """
    torch.set_num_threads(errand.threads)
    tell(0.0)
    node = platform.node()
    root = _data_here(errand.data_root)
    lacking = _lacking(errand.job, root, node)
    if lacking is not None:
        return Delivery(JobReport(errand.job, error=lacking))
    shared = errand.sign is not None and (errand.out / errand.sign).is_file()
    folder = errand.out if shared else _own_folder(errand.own)
    job = errand.job if shared else _missing(errand, root)
    report = JobReport(job)
    if job.seeds:
        report = attempt(
            job, folder, data_root=root, device=errand.device, progress=_now_and_then(tell)
        )
    if report.error is not None and report.error.partition(":")[0] in _MEMORY:
        raise MemoryRanOutError(replace(report, job=errand.job))
    if source_hash() != errand.source:
        note = f"the node {node} has other code of drgcn than this machine: install the same"
        report = replace(report, notes=(*report.notes, note))
    if shared:
        return Delivery(report)
    if report.error is not None:
        # A full disk there is no reason to stop here.
        words = f"{report.error} (on the node {node})"
        return Delivery(replace(report, job=errand.job, error=words, disk_full=False))
    records = tuple(p.read_text(encoding="utf-8") for p in sorted(folder.glob("*-seeds-*.json")))
    # Gone before they have arrived: if they get lost, the job is run again. Kept, they could be
    # handed out long after they were deleted from `out`.
    shutil.rmtree(folder, ignore_errors=True)
    return Delivery(replace(report, job=errand.job), records)


def _data_here(given: Path | None) -> Path:
    """The data folder that was asked for if this node has it, else the node's own."""
    if given is not None and not given.expanduser().is_dir() and os.environ.get("DRGCN_DATA"):
        given = None
    return chosen_root(given)


def _lacking(job: Job, root: Path, node: str) -> str | None:
    """What is said if a node has nothing of a dataset; nodes are not to fetch whole datasets."""
    try:
        files = files_of(describe(job.experiment.dataset), root)
    except InputError:
        return None  # a folder of the user's own, or a wrong name: loading it will tell
    if not files or any((root / file.path).is_file() for file in files):
        return None
    return (
        f"the node {node} has no files of {job.experiment.dataset} under {root}: put them there, "
        "or set DRGCN_DATA before `ray start` on that machine"
    )


def _own_folder(name: str) -> Path:
    return Path("~/.cache/drgcn/cluster").expanduser() / name


def _missing(errand: Errand, root: Path) -> Job:
    """The job without the seeds that are recorded for the data as it is here."""
    if not errand.on_record:
        return errand.job
    try:
        content = job_data(errand.job, root).dataset.content_hash
    except Exception:
        return errand.job  # the job will fail with it, and be reported
    known = errand.on_record.get(errand.job.experiment.identity(content), frozenset())
    return replace(errand.job, seeds=tuple(s for s in errand.job.seeds if s not in known))


def _now_and_then(tell: Callable[[float], None]) -> Callable[[Progress], Any]:
    last = time.monotonic()

    def progress(now: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= _TELL_EVERY:
            last = time.monotonic()
            tell(now.epochs_done / max(now.epochs_in_all, 1))

    return progress
