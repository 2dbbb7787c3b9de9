"""Runs jobs on a Ray cluster."""

from __future__ import annotations

import secrets
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drgcn.errors import DrgcnWarning, InputError
from drgcn.studies.reproduce.backend import Watch
from drgcn.studies.reproduce.job import Job
from drgcn.studies.reproduce.job_report import JobReport
from drgcn.studies.reproduce.process_runner import cores
from drgcn.studies.reproduce.ray_board import RayBoard
from drgcn.studies.reproduce.ray_connection import connect
from drgcn.studies.reproduce.ray_delivery import deliver
from drgcn.studies.reproduce.ray_errand import Delivery, Errand
from drgcn.studies.reproduce.ray_share import RayShare
from drgcn.studies.reproduce.ray_task import MemoryRanOutError, run_on_node
from drgcn.studies.run_record import load_records

_RETRIES = 3  # by Ray, of a job whose process or node died, or that found too little memory
_LOOK_EVERY = 1.0  # seconds
_ROOM_EVERY = 10.0
_GRACE = 5.0  # seconds for jobs to clear up in, before they are killed


@dataclass(frozen=True)
class RayRunner:
    """A backend, see :mod:`drgcn.studies.reproduce.backend`: one Ray task for each job.

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
        """Yields one report per job, see :class:`~drgcn.studies.reproduce.backend.RunJobs`."""
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
