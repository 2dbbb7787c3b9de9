"""Runs jobs on a Ray cluster."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from drgcn._io import lock
from drgcn.data.catalog import describe
from drgcn.data.downloader import data_root as chosen_root
from drgcn.data.downloader import files_of
from drgcn.errors import DrgcnError, DrgcnWarning, InputError
from drgcn.ray_cluster import RayShare, connect
from drgcn.records import source_hash
from drgcn.studies.records import RunRecord, load_records
from drgcn.studies.reproduce.backend import Watch, attempt, job_data
from drgcn.studies.reproduce.jobs import Job, JobReport
from drgcn.studies.reproduce.processes import cores
from drgcn.training import Progress

_ANSWER = 5.0  # seconds


class RayBoard:
    """A small Ray actor on this machine's node; work goes on without it, should it die."""

    def __init__(self) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._actor: Any = (
            ray.remote(_board_class()).options(num_cpus=0, scheduling_strategy=here).remote()
        )

    def pen(self, key: str) -> Callable[[float], None]:
        """What a job on some node notes its share with, from 0 when it starts."""
        note = self._actor.note

        def tell(share: float) -> None:
            noted = note.remote(key, share)
            if share == 0.0:  # waited for: attempts are counted, and this process may soon die
                # Not by ray.get: a task that waits in it gives its CPU to the next.
                with suppress(Exception):
                    noted.future().result(_ANSWER)

        return tell

    def read(self) -> tuple[dict[str, float], dict[str, int]]:
        """The share of each job that has started, and how often it has, by its key."""
        import ray

        with suppress(ray.exceptions.RayError):
            return ray.get(self._actor.read.remote(), timeout=_ANSWER)
        return {}, {}

    def close(self) -> None:
        """Ends the actor."""
        import ray

        with suppress(ray.exceptions.RayError):
            ray.kill(self._actor)


def _board_class() -> type:
    """The actor's class, made in a function so that it is sent as it is.

    Found by its module, it would have its process import all of this package, torch included.
    """

    class Board:
        def __init__(self) -> None:
            self.shares: dict[str, float] = {}
            self.starts: dict[str, int] = {}

        def note(self, key: str, share: float) -> None:
            self.shares[key] = share
            if share == 0.0:
                self.starts[key] = self.starts.get(key, 0) + 1

        def read(self) -> tuple[dict[str, float], dict[str, int]]:
            return self.shares, self.starts

    return Board


@dataclass(frozen=True)
class Errand:
    """A job, and all that a node has to know about it.

    Attributes:
        job: What to run.
        out: The folder of the records, as the one who asks sees it.
        sign: Name of a file in that folder: a node that finds it sees the same folder, and works
            in it. ``None`` if nodes are to work in folders of their own in any case.
        own: What a folder of the node's own is called. The same for the same job and ``out``,
            so that a second attempt finds the checkpoint of the first.
        on_record: Seeds recorded in ``out``, by experiment and data (the identity of records).
        data_root: Folder of the datasets, if it was given.
        device: Where to train.
        threads: CPU threads.
        source: Hash of the code that asks.
    """

    job: Job
    out: Path
    sign: str | None
    own: str
    on_record: Mapping[str, frozenset[int]]
    data_root: Path | None
    device: str
    threads: int
    source: str

    @classmethod
    def of(
        cls,
        job: Job,
        out: Path,
        records: Sequence[RunRecord],
        *,
        sign: str | None,
        data_root: Path | None,
        device: str,
        threads: int,
    ) -> Errand:
        """What to say of a job, given the records in ``out``."""
        whose = hashlib.sha256(f"{platform.node()}:{out}".encode()).hexdigest()[:12]
        return cls(
            job=job,
            out=out,
            sign=sign,
            own=f"{whose}/{job.file_stem}",
            on_record=_on_record(job, records),
            data_root=data_root,
            device=device,
            threads=threads,
            source=source_hash(),
        )


@dataclass(frozen=True)
class Delivery:
    """How a job ended on a node, and its records as text unless they are in ``out`` already."""

    report: JobReport
    records: tuple[str, ...] = ()


def _on_record(job: Job, records: Sequence[RunRecord]) -> Mapping[str, frozenset[int]]:
    """Seeds on record for a job's experiment, whatever the data was: the node knows its own."""
    found: dict[str, frozenset[int]] = {}
    for record in records:
        if record.experiment == job.experiment:
            found[record.identity] = found.get(record.identity, frozenset()) | record.seeds.keys()
    return found


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


def deliver(text: str, out: Path) -> Path | None:
    """Writes a record, but for seeds that are on record by now.

    The job is locked meanwhile: another runner on the same folder may be at it. The record is
    there as a whole or not at all, and never replaces one.

    Args:
        text: What :meth:`~drgcn.studies.records.RunRecord.dumps` gave.
        out: Folder of the records.

    Returns:
        Where it is, or ``None`` if there was nothing new in it.
    """
    record = RunRecord.loads(text, "what a node sent")
    with lock(out / ".locks" / record.identity):
        alike = [r for r in RunRecord.read_folder(out).values() if r.identity == record.identity]
        known = {seed for found in alike for seed in found.seeds}
        fresh = {seed: result for seed, result in record.seeds.items() if seed not in known}
        if not fresh:
            return None
        record = replace(record, seeds=fresh)
        name, number = record.file_name, 1
        while (out / name).exists():  # damaged, or other seeds between the same two
            number += 1
            name = f"{Path(record.file_name).stem}-{number}.json"
        return record.save(out, name)


_RETRIES = 3  # by Ray, of a job whose process or node died, or that found too little memory
_LOOK_EVERY = 1.0  # seconds
_ROOM_EVERY = 10.0
_GRACE = 5.0  # seconds for jobs to clear up in, before they are killed


@dataclass(frozen=True)
class RayRunner:
    """A backend, see :mod:`drgcn.studies.reproduce.suite`: one Ray task for each job.

    Where and when a job runs, and that it is run again if its process or node dies, is Ray's
    business. Nodes need no file system in common, see :func:`run_on_node`.

    Attributes:
        share: What of the cluster each job takes.
        workers: How many jobs the cluster could run at once when it was looked at.
        device: Where each job trains: ``cpu`` or ``cuda``.
        shared: Whether nodes that see the folder of the records may work in it.
        task: What is run on a node.
    """

    share: RayShare
    workers: int
    device: str = "cpu"
    shared: bool = True
    task: Callable[[Errand, Callable[[float], None]], Delivery] = run_on_node

    @classmethod
    def at(
        cls, address: str, jobs: int = 1, threads: int | None = None, device: str = "auto"
    ) -> RayRunner:
        """A runner on the cluster at an address, to which this process is connected.

        Args:
            address: See :func:`connect`.
            jobs: How many jobs share a GPU, and how many run at once if Ray is ``local``. On
                the CPUs of a cluster, as many run at once as find room.
            threads: CPU threads of each job. (default: 1; on ``local`` its share of the cores)
            device: ``cpu``, ``cuda``, or ``auto`` for ``cuda`` if some node has it.

        Raises:
            InputError: If there is no such cluster, or no node of it can run a job.
        """
        if device not in ("auto", "cpu", "cuda"):
            raise InputError(f"Expected --device cpu, cuda or auto on Ray; found {device!r}.")
        usual = max(1, cores() // jobs) if address == "local" else 1
        cpus = threads or usual
        connect(address, cpus * jobs)
        import ray

        nodes = ray.nodes()
        shares = {"cuda": RayShare(cpus, 1 / jobs), "cpu": RayShare(cpus, 0.0)}
        if device == "auto":
            device = "cuda" if shares["cuda"].room(nodes) else "cpu"
        return cls(shares[device], shares[device].expect_room(nodes, address), device)

    @property
    def threads_each(self) -> int:
        """CPU threads of each job."""
        return self.share.cpus

    def __call__(
        self,
        jobs: Sequence[Job],
        out: Path,
        *,
        data_root: Path | None = None,
        device: str = "cpu",
        watch: Watch | None = None,
    ) -> Iterator[JobReport]:
        """Yields one report per job, see :class:`~drgcn.studies.reproduce.suite.RunJobs`."""
        import ray

        out = out.absolute()
        out.mkdir(parents=True, exist_ok=True)
        sign = out / f".ray-{secrets.token_hex(8)}"
        sign.touch()
        board = RayBoard()
        remote = ray.remote(self.task).options(
            num_cpus=self.share.cpus,
            num_gpus=self.share.gpus,
            max_retries=_RETRIES,
            retry_exceptions=[MemoryRanOutError],
        )
        pending: dict[Any, Job] = {}
        records = load_records(out)
        try:
            for job in jobs:
                errand = Errand.of(
                    *(job, out, records),
                    sign=sign.name if self.shared else None,
                    data_root=data_root,
                    device=device,
                    threads=self.share.cpus,
                )
                pending[remote.remote(errand, board.pen(job.key))] = job
            yield from self._received(pending, out, board, watch or (lambda job, share: None))
        finally:
            _cancel(list(pending))
            board.close()
            sign.unlink(missing_ok=True)

    def _received(
        self, pending: dict[Any, Job], out: Path, board: RayBoard, tell: Watch
    ) -> Iterator[JobReport]:
        """Reports of jobs as they end; what they bring is written first."""
        import ray

        told: dict[str, float] = {}
        looked, waiting = time.monotonic(), False
        while pending:
            ended, _ = ray.wait(list(pending), timeout=_LOOK_EVERY)
            shares, starts = board.read()
            for ref in ended:
                job = pending.pop(ref)
                report = _result(ref, job, out)
                yield replace(report, attempts=starts.get(job.key, 1))
            for job in pending.values():
                share = shares.get(job.key)
                if share is not None and share != told.get(job.key):
                    told[job.key] = share
                    tell(job, share)
            if time.monotonic() - looked > _ROOM_EVERY:
                looked, before = time.monotonic(), waiting
                waiting = self.share.room(ray.nodes()) == 0
                if waiting and not before:
                    words = f"no node is left for {len(pending)} jobs: they wait for one to join"
                    warnings.warn(words, DrgcnWarning, stacklevel=2)


def _result(ref: Any, job: Job, out: Path) -> JobReport:
    """How a job ended, with its records written into this machine's folder."""
    import ray

    try:
        delivery: Delivery = ray.get(ref)
        for text in delivery.records:
            deliver(text, out)
        return delivery.report
    except MemoryRanOutError as error:  # Ray's own error, which has ours within
        report: JobReport = getattr(error, "cause", error).args[0]
        return report
    except ray.exceptions.WorkerCrashedError as error:
        words = "its process was killed, most often for want of memory"
        return JobReport(job, error=words, traceback=str(error))
    except (ray.exceptions.RayError, InputError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return JobReport(job, error=lines[-1] if lines else repr(error), traceback=str(error))


def _cancel(refs: list[Any]) -> None:
    """Stops jobs that wait or run: each has a few seconds to remove what it has half written."""
    import ray

    if not refs or not ray.is_initialized():
        return
    with suppress(ray.exceptions.RayError):
        for ref in refs:
            ray.cancel(ref)
        _, left = ray.wait(refs, num_returns=len(refs), timeout=_GRACE)
        for ref in left:
            ray.cancel(ref, force=True)
