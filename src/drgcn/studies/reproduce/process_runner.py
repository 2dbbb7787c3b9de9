"""Runs jobs in processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from drgcn.studies.reproduce.backend import Watch
from drgcn.studies.reproduce.job import Job
from drgcn.studies.reproduce.job_queue import JobQueue, Turn
from drgcn.studies.reproduce.job_report import JobReport
from drgcn.studies.reproduce.worker import StartMethod, Surroundings, Worker, stop

_ATTEMPTS = 2
_MEMORY = ("MemoryError", "OutOfMemoryError", "AcceleratorError")


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
        return self.threads or max(1, cores() // self.workers)

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
        around = Surroundings(out.absolute(), data_root, device, self.threads_each, self.start)
        tell = watch or (lambda job, share: None)
        queue = JobQueue(jobs)
        team: list[Worker] = []
        try:
            while queue or _running(team):
                self._hand_out(queue, team, around, tell)
                lines = {worker.line: worker for worker in team if worker.turn is not None}
                for line in wait(list(lines)):
                    report = self._hear(lines[line], queue, team, device, tell)
                    if report is not None:
                        yield report
        finally:
            stop(team)

    def _hand_out(
        self, queue: JobQueue, team: list[Worker], around: Surroundings, tell: Watch
    ) -> None:
        while queue and len(_running(team)) < self.workers:
            turn = queue.next(_running(team))
            if turn is None:
                return
            idle = next((worker for worker in team if worker.turn is None), None)
            if idle is None:
                idle = Worker(around)
                team.append(idle)
            idle.give(turn)
            tell(turn.job, 0.0)

    def _hear(
        self, worker: Worker, queue: JobQueue, team: list[Worker], device: str, tell: Watch
    ) -> JobReport | None:
        """What a worker says: the report if its job has ended for good."""
        turn = worker.turn
        assert turn is not None
        try:
            said = worker.hear()
        except EOFError:
            team.remove(worker)
            words = f"its process was {worker.end()}"
            said = JobReport(turn.job, error=words, attempts=turn.attempt)
            again = True
        else:
            if isinstance(said, float):
                tell(turn.job, said)
                return None
            shared = device.startswith("cuda") and self.workers > 1
            again = said is not None and (shared or _memory_ran_out(said))
            if said is not None and said.error and device.startswith("cuda"):
                team.remove(worker)  # an error may leave a process's CUDA unusable
                stop([worker])
        worker.turn = None
        if said is None:
            tell(turn.job, None)
            queue.put_back(turn)
            return None
        if said.error and again and not said.disk_full and turn.attempt < _ATTEMPTS:
            tell(turn.job, None)
            queue.try_again(turn)
            return None
        return said


def cores() -> int:
    """How many CPU cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # systems that know no affinity
        return os.cpu_count() or 1


def _running(team: list[Worker]) -> list[Turn]:
    return [worker.turn for worker in team if worker.turn is not None]


def _memory_ran_out(report: JobReport) -> bool:
    return bool(report.error) and report.error.partition(":")[0] in _MEMORY  # type: ignore[union-attr]
