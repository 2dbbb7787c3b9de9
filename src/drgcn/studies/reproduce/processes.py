"""Runs jobs in processes of this machine."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from drgcn._io import LockedError
from drgcn._processes import available_cores, children_ignore_sigint
from drgcn.studies.reproduce.backend import OUT_OF_MEMORY, Watch, attempt
from drgcn.studies.reproduce.jobs import Job, JobReport

StartMethod = Literal["spawn", "forkserver"]

_ATTEMPTS = 2
_LOCK_WAIT = 1.0  # seconds, for a job that another runner is running
_GRACE = 5.0  # seconds to clear up in, before a worker is killed


@dataclass(frozen=True)
class ProcessRunner:
    """A backend, see :mod:`drgcn.studies.reproduce.backend`: worker processes on this machine.

    A worker that dies is replaced, and its job tried once more. On CUDA all workers share the
    device, and a job that failed beside others, for want of memory as likely as not, is tried
    once more alone.

    Attributes:
        workers: How many jobs run at once.
        threads: CPU threads of each; its share of the cores if not given. Sums of many numbers
            may be rounded differently with another number of threads.
        start: How processes are started, see :mod:`multiprocessing`.
    """

    workers: int = 1
    threads: int | None = None
    start: StartMethod = "spawn"

    @property
    def threads_each(self) -> int:
        """CPU threads of each worker."""
        return self.threads or max(1, available_cores() // self.workers)

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
        config = WorkerConfig(out.absolute(), data_root, device, self.threads_each, self.start)
        watch = watch or (lambda job, share: None)
        queue = JobQueue(jobs)
        workers: list[Worker] = []
        try:
            while queue or _running(workers):
                self._assign_jobs(queue, workers, config, watch)
                busy = {worker.connection: worker for worker in workers if worker.queued}
                for connection in wait(list(busy)):
                    report = self._receive(busy[connection], queue, workers, device, watch)
                    if report is not None:
                        yield report
        finally:
            stop(workers)

    def _assign_jobs(
        self, queue: JobQueue, workers: list[Worker], config: WorkerConfig, watch: Watch
    ) -> None:
        while queue and len(_running(workers)) < self.workers:
            queued = queue.next(_running(workers))
            if queued is None:
                return
            idle = next((worker for worker in workers if worker.queued is None), None)
            if idle is None:
                idle = Worker(config)
                workers.append(idle)
            idle.assign(queued)
            watch(queued.job, 0.0)

    def _receive(
        self, worker: Worker, queue: JobQueue, workers: list[Worker], device: str, watch: Watch
    ) -> JobReport | None:
        """Take a message of a worker; return the report if its job has ended for good."""
        queued = worker.queued
        assert queued is not None
        try:
            message = worker.receive()
        except EOFError:
            workers.remove(worker)
            error = f"its process was {worker.cause_of_death()}"
            message = JobReport(queued.job, error=error, attempts=queued.attempt)
            retry = True
        else:
            if isinstance(message, float):
                watch(queued.job, message)
                return None
            shared = device.startswith("cuda") and self.workers > 1
            retry = message is not None and (shared or _memory_ran_out(message))
            if message is not None and message.error and device.startswith("cuda"):
                workers.remove(worker)  # an error may leave a process's CUDA unusable
                stop([worker])
        worker.queued = None
        if message is None:
            watch(queued.job, None)
            queue.put_back(queued)
            return None
        if message.error and retry and not message.disk_full and queued.attempt < _ATTEMPTS:
            watch(queued.job, None)
            queue.try_again(queued)
            return None
        return message


def _running(workers: list[Worker]) -> list[QueuedJob]:
    return [worker.queued for worker in workers if worker.queued is not None]


def _memory_ran_out(report: JobReport) -> bool:
    # CUDA reports some failed allocations as errors of the device.
    return report.error_type in (*OUT_OF_MEMORY, "AcceleratorError")


@dataclass(frozen=True)
class QueuedJob:
    """A job with the terms of its next attempt.

    Attributes:
        job: The job.
        attempt: Number of the attempt, from 1.
        patience: Seconds to wait if another runner is running it.
        alone: Whether nothing else may run beside it.
    """

    job: Job
    attempt: int = 1
    patience: float = 0.0
    alone: bool = False


class JobQueue:
    """Jobs in the order given; then those that other runners were running; then second attempts.

    A job gets its second attempt at the end and alone: what kills a worker is most often
    want of memory, and that is when there is most of it.

    Args:
        jobs: The jobs, in the order in which they are to start.
    """

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._first = deque(QueuedJob(job) for job in jobs)
        self._busy: deque[QueuedJob] = deque()
        self._second: deque[QueuedJob] = deque()

    def __len__(self) -> int:
        return len(self._first) + len(self._busy) + len(self._second)

    def next(self, running: Iterable[QueuedJob]) -> QueuedJob | None:
        """Return the next job, given those that run now; ``None`` if it has to wait for them."""
        now = list(running)
        if any(queued.alone for queued in now):
            return None
        if self._first:
            return self._first.popleft()
        if self._busy:
            return self._busy.popleft()
        if self._second and not now:
            return self._second.popleft()
        return None

    def put_back(self, queued: QueuedJob) -> None:
        """Take back a job that another runner is running."""
        later = self._second if queued.alone else self._busy
        later.append(replace(queued, patience=_LOCK_WAIT))

    def try_again(self, queued: QueuedJob) -> None:
        """Take back a job for one more attempt."""
        attempt = queued.attempt + 1
        self._second.append(replace(queued, attempt=attempt, patience=_LOCK_WAIT, alone=True))


@dataclass(frozen=True)
class WorkerConfig:
    """Settings that are the same for all jobs of a run."""

    out: Path
    data_root: Path | None
    device: str
    threads: int
    start: StartMethod = "spawn"


class Worker:
    """One process, with a connection of its own.

    A connection that several processes share could be left locked by one that is killed.

    Attributes:
        queued: The job it is running; ``None`` if it is idle.
    """

    def __init__(self, config: WorkerConfig) -> None:
        # Never a copy of this process, which has threads and may have CUDA in use: it may hang.
        context: Any = multiprocessing.get_context(config.start)
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, config), daemon=True)
        with children_ignore_sigint():
            self.process.start()
        theirs.close()  # then the connection ends when the process does
        self.queued: QueuedJob | None = None

    def assign(self, queued: QueuedJob) -> None:
        """Send it a job. If it has died meanwhile, :meth:`receive` raises."""
        self.queued = queued
        with suppress(OSError):
            self.connection.send(queued)

    def receive(self) -> float | JobReport | None:
        """Return its next message.

        Returns:
            The share of its job that is done, the report at its end, or ``None`` if another
            runner is running the job.

        Raises:
            EOFError: If the process has died.
        """
        try:
            return self.connection.recv()
        except OSError:
            raise EOFError from None  # it died in the middle of a message

    def cause_of_death(self) -> str:
        """Wait for a process that has died, and return in words how it did."""
        self.process.join()
        self.connection.close()
        code = self.process.exitcode or 0
        if code == -signal.SIGKILL:
            return "killed from outside (signal 9), most often for want of memory"
        return f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def stop(workers: list[Worker]) -> None:
    """End processes: each has a few seconds to remove what it has half written."""
    for worker in workers:
        worker.connection.close()
        worker.process.terminate()
    try:
        for worker in workers:
            worker.process.join(_GRACE)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _serve(connection: Connection, config: WorkerConfig) -> None:
    """Run jobs that come over a connection, one after another, in a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _exit_on_signal)
    threading.Thread(target=_exit_with_runner, daemon=True).start()
    import torch

    torch.set_num_threads(config.threads)
    try:
        while True:
            queued = connection.recv()
            connection.send(_run_queued(queued, connection, config))
            if config.device.startswith("cuda"):
                gc.collect()
                torch.cuda.empty_cache()  # others on the same device may need it
    except (EOFError, OSError):
        pass  # the runner is gone, or has no more work
    finally:
        # On its way out already: being told once more would only print a traceback.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _run_queued(
    queued: QueuedJob, connection: Connection, config: WorkerConfig
) -> JobReport | None:
    try:
        report = attempt(
            queued.job,
            config.out,
            data_root=config.data_root,
            device=config.device,
            on_share=connection.send,
            patience=queued.patience,
        )
    except LockedError:
        return None
    return replace(report, attempts=queued.attempt)


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _exit_with_runner() -> None:
    """End this process when the one that started it is gone, however that came about."""
    runner = multiprocessing.parent_process()
    if runner is not None:
        wait([runner.sentinel])
        os._exit(1)
