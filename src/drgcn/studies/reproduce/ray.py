"""Runs jobs on a Ray cluster."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from drgcn._io import lock
from drgcn._processes import available_cores
from drgcn.data.catalog import describe
from drgcn.data.downloader import data_root as chosen_root
from drgcn.data.downloader import files_of
from drgcn.errors import DrgcnError, InputError, warn
from drgcn.ray_cluster import RayShare, connect
from drgcn.records import free_path, source_hash
from drgcn.studies.records import RunRecord, load_records
from drgcn.studies.reproduce.backend import OUT_OF_MEMORY, Watch, attempt, job_data
from drgcn.studies.reproduce.jobs import Job, JobReport

ReportShare = Callable[[float], None]
"""Told the share of a job that is done, from 0 when it starts."""

_RETRIES = 3  # by Ray, of a job whose process or node died, or that found too little memory
_POLL_EVERY = 1.0  # seconds
_NODES_EVERY = 10.0  # seconds between looks at the nodes of the cluster
_REPORT_EVERY = 1.0  # seconds between two reports of a job's share
_ANSWER = 5.0  # seconds for the progress board to answer
_GRACE = 5.0  # seconds for jobs to clear up in, before they are killed


@dataclass(frozen=True)
class RemoteJob:
    """A job with everything that a node has to know to run it.

    Attributes:
        job: The job.
        out: The folder of the records, as the driver sees it.
        marker: Name of a file in that folder: a node that finds it sees the same folder, and
            works in it. ``None`` if nodes are to work in folders of their own in any case.
        node_folder: Name of a folder of the node's own. The same for the same job and ``out``,
            so that a second attempt finds the checkpoint of the first.
        on_record: Seeds recorded in ``out``, by experiment and data (the identity of records).
        data_root: Folder of the datasets, if it was given.
        device: Where to train.
        threads: CPU threads.
        source: Hash of the driver's code.
    """

    job: Job
    out: Path
    marker: str | None
    node_folder: str
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
        marker: str | None,
        data_root: Path | None,
        device: str,
        threads: int,
    ) -> RemoteJob:
        """Prepare a job for any node, given the records in ``out``."""
        driver = hashlib.sha256(f"{platform.node()}:{out}".encode()).hexdigest()[:12]
        return cls(
            job=job,
            out=out,
            marker=marker,
            node_folder=f"{driver}/{job.file_stem}",
            on_record=_recorded_seeds(job, records),
            data_root=data_root,
            device=device,
            threads=threads,
            source=source_hash(),
        )


def _recorded_seeds(job: Job, records: Sequence[RunRecord]) -> Mapping[str, frozenset[int]]:
    """Return the seeds on record for a job's experiment on any data: the node knows its own."""
    found: dict[str, frozenset[int]] = {}
    for record in records:
        if record.experiment == job.experiment:
            found[record.identity] = found.get(record.identity, frozenset()) | record.seeds.keys()
    return found


@dataclass(frozen=True)
class RemoteResult:
    """Report of a job from a node, with its records as text unless they are in ``out`` already."""

    report: JobReport
    records: tuple[str, ...] = ()


class MemoryRanOutError(DrgcnError):
    """A job found too little memory beside others; holds its report. Ray tries it again."""


def run_on_node(remote: RemoteJob, report_share: ReportShare) -> RemoteResult:
    """Run a job in this process, on whatever node it is.

    If ``out`` is shared, the job is run in it as by any process. If not, it is run in a folder
    under ``~/.cache/drgcn/cluster``, which keeps checkpoints until the job is done, and its
    records are sent back as text. Nothing is written to a folder called ``out`` that only
    happens to exist here.

    Raises:
        MemoryRanOutError: If there was too little memory.
    """
    torch.set_num_threads(remote.threads)
    report_share(0.0)
    node = platform.node()
    root = _data_root_here(remote.data_root)
    missing_data = _missing_data(remote.job, root, node)
    if missing_data is not None:
        return RemoteResult(JobReport(remote.job, error=missing_data))
    shared = remote.marker is not None and (remote.out / remote.marker).is_file()
    folder = remote.out if shared else _own_folder(remote.node_folder)
    job = remote.job if shared else _without_recorded_seeds(remote, root)
    report = JobReport(job)
    if job.seeds:
        report = attempt(
            job, folder, data_root=root, device=remote.device, on_share=_throttled(report_share)
        )
    if report.error_type in OUT_OF_MEMORY:
        raise MemoryRanOutError(replace(report, job=remote.job))
    if source_hash() != remote.source:
        note = f"the node {node} has other code of drgcn than this machine: install the same"
        report = replace(report, notes=(*report.notes, note))
    if shared:
        return RemoteResult(report)
    if report.error is not None:
        # A full disk there is no reason to stop here.
        error = f"{report.error} (on the node {node})"
        return RemoteResult(replace(report, job=remote.job, error=error, disk_full=False))
    records = tuple(p.read_text(encoding="utf-8") for p in sorted(folder.glob("*-seeds-*.json")))
    # Gone before they have arrived: if they get lost, the job is run again. Kept, they could be
    # handed out long after they were deleted from `out`.
    shutil.rmtree(folder, ignore_errors=True)
    return RemoteResult(replace(report, job=remote.job), records)


def _data_root_here(given: Path | None) -> Path:
    """Return the data folder that was asked for if this node has it, else the node's own."""
    if given is not None and not given.expanduser().is_dir() and os.environ.get("DRGCN_DATA"):
        given = None
    return chosen_root(given)


def _missing_data(job: Job, root: Path, node: str) -> str | None:
    """Return an error if a node has no file of a dataset: nodes do not fetch whole datasets."""
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


def _without_recorded_seeds(remote: RemoteJob, root: Path) -> Job:
    """Return the job without the seeds that are recorded for the data as it is here."""
    if not remote.on_record:
        return remote.job
    try:
        content = job_data(remote.job, root).dataset.content_hash
    except Exception:  # the job will fail with it, and be reported
        return remote.job
    known = remote.on_record.get(remote.job.experiment.identity(content), frozenset())
    return replace(remote.job, seeds=tuple(s for s in remote.job.seeds if s not in known))


def _throttled(report_share: ReportShare) -> ReportShare:
    last = time.monotonic()

    def report_sometimes(share: float) -> None:
        nonlocal last
        if time.monotonic() - last >= _REPORT_EVERY:
            last = time.monotonic()
            report_share(share)

    return report_sometimes


@dataclass(frozen=True)
class RayRunner:
    """A backend, see :mod:`drgcn.studies.reproduce.backend`: one Ray task for each job.

    Where and when a job runs, and that it is run again if its process or node dies, is Ray's
    business. Nodes need no file system in common, see :func:`run_on_node`.

    Attributes:
        share: Resources of the cluster that each job takes.
        workers: How many jobs the cluster could run at once when it was looked at.
        device: Where each job trains: ``cpu`` or ``cuda``.
        shared: Whether nodes that see the folder of the records may work in it.
        task: Function that is run on a node.
    """

    share: RayShare
    workers: int
    device: str = "cpu"
    shared: bool = True
    task: Callable[[RemoteJob, ReportShare], RemoteResult] = run_on_node

    @classmethod
    def at(
        cls, address: str, jobs: int = 1, threads: int | None = None, device: str = "auto"
    ) -> RayRunner:
        """Connect this process to a cluster and return a runner on it.

        Args:
            address: See :func:`drgcn.ray_cluster.connect`.
            jobs: How many jobs share a GPU, and how many run at once if Ray is ``local``. On
                the CPUs of a cluster, as many run at once as find room.
            threads: CPU threads of each job. (default: 1; on ``local`` its share of the cores)
            device: ``cpu``, ``cuda``, or ``auto`` for ``cuda`` if some node has it.

        Raises:
            InputError: If there is no such cluster, or no node of it can run a job.
        """
        if device not in ("auto", "cpu", "cuda"):
            raise InputError(f"Expected --device cpu, cuda or auto on Ray; found {device!r}.")
        usual = max(1, available_cores() // jobs) if address == "local" else 1
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
        """Yield one report per job, see :class:`~drgcn.studies.reproduce.backend.RunJobs`."""
        import ray

        out = out.absolute()
        out.mkdir(parents=True, exist_ok=True)
        marker = out / f".ray-{secrets.token_hex(8)}"
        marker.touch()
        board = ProgressBoard()
        task = ray.remote(self.task).options(
            num_cpus=self.share.cpus,
            num_gpus=self.share.gpus,
            max_retries=_RETRIES,
            retry_exceptions=[MemoryRanOutError],
        )
        pending: dict[Any, Job] = {}
        records = load_records(out)
        try:
            for job in jobs:
                remote = RemoteJob.of(
                    job,
                    out,
                    records,
                    marker=marker.name if self.shared else None,
                    data_root=data_root,
                    device=device,
                    threads=self.share.cpus,
                )
                pending[task.remote(remote, board.reporter(job.key))] = job
            yield from self._reports(pending, out, board, watch or (lambda job, share: None))
        finally:
            _cancel(list(pending))
            board.close()
            marker.unlink(missing_ok=True)

    def _reports(
        self, pending: dict[Any, Job], out: Path, board: ProgressBoard, watch: Watch
    ) -> Iterator[JobReport]:
        """Yield reports of jobs as they end, after their records were written."""
        import ray

        shown: dict[str, float] = {}
        looked, without_node = time.monotonic(), False
        while pending:
            ended, _ = ray.wait(list(pending), timeout=_POLL_EVERY)
            shares, starts = board.read()
            for ref in ended:
                job = pending.pop(ref)
                report = _stored_result(ref, job, out)
                yield replace(report, attempts=starts.get(job.key, 1))
            for job in pending.values():
                share = shares.get(job.key)
                if share is not None and share != shown.get(job.key):
                    shown[job.key] = share
                    watch(job, share)
            if time.monotonic() - looked > _NODES_EVERY:
                looked, before = time.monotonic(), without_node
                without_node = self.share.room(ray.nodes()) == 0
                if without_node and not before:
                    words = f"no node is left for {len(pending)} jobs: they wait for one to join"
                    warn(words)


def _stored_result(ref: Any, job: Job, out: Path) -> JobReport:
    """Write the records that a job sent into this machine's folder, and return its report."""
    import ray

    try:
        result: RemoteResult = ray.get(ref)
        for text in result.records:
            store_record(text, out)
        return result.report
    except MemoryRanOutError as error:  # Ray's own error, which has ours within
        report: JobReport = getattr(error, "cause", error).args[0]
        return report
    except ray.exceptions.WorkerCrashedError as error:
        words = "its process was killed, most often for want of memory"
        return JobReport(job, error=words, traceback=str(error))
    except (ray.exceptions.RayError, InputError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return JobReport(job, error=lines[-1] if lines else repr(error), traceback=str(error))


def store_record(text: str, out: Path) -> Path | None:
    """Write a record that a node sent, but for seeds that are on record by now.

    The job is locked meanwhile: another runner on the same folder may be at it. The record is
    there as a whole or not at all, and never replaces one.

    Args:
        text: Output of :meth:`~drgcn.studies.records.RunRecord.dumps`.
        out: Folder of the records.

    Returns:
        Its path, or ``None`` if there was nothing new in it.
    """
    record = RunRecord.loads(text, "what a node sent")
    with lock(out / ".locks" / record.identity):
        alike = [r for r in RunRecord.read_folder(out).values() if r.identity == record.identity]
        known = {seed for found in alike for seed in found.seeds}
        fresh = {seed: result for seed, result in record.seeds.items() if seed not in known}
        if not fresh:
            return None
        record = replace(record, seeds=fresh)
        # Its name may be that of a damaged file, or of other seeds between the same two.
        return record.save(out, free_path(out / record.file_name).name)


def _cancel(refs: list[Any]) -> None:
    """Stop jobs that wait or run: each has a few seconds to remove what it has half written."""
    import ray

    if not refs or not ray.is_initialized():
        return
    with suppress(ray.exceptions.RayError):
        for ref in refs:
            ray.cancel(ref)
        _, left = ray.wait(refs, num_returns=len(refs), timeout=_GRACE)
        for ref in left:
            ray.cancel(ref, force=True)


class ProgressBoard:
    """A Ray actor on this machine's node that keeps the share of each job.

    Jobs go on without it, should it die.
    """

    def __init__(self) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._actor: Any = (
            ray.remote(_board_class()).options(num_cpus=0, scheduling_strategy=here).remote()
        )

    def reporter(self, key: str) -> ReportShare:
        """Return the function with which a job, on any node, reports its share."""
        note = self._actor.note

        def report_share(share: float) -> None:
            noted = note.remote(key, share)
            if share == 0.0:  # waited for: attempts are counted, and this process may soon die
                # Not by ray.get: a task that waits in it gives its CPU to the next.
                with suppress(Exception):
                    noted.future().result(_ANSWER)

        return report_share

    def read(self) -> tuple[dict[str, float], dict[str, int]]:
        """Return the share of each job that has started, and how often it has, by its key."""
        import ray

        with suppress(ray.exceptions.RayError):
            return ray.get(self._actor.read.remote(), timeout=_ANSWER)
        return {}, {}

    def close(self) -> None:
        """End the actor."""
        import ray

        with suppress(ray.exceptions.RayError):
            ray.kill(self._actor)


def _board_class() -> type:
    """Make the actor's class in a function, so that Ray sends its code.

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
