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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from drgcn._io import LockedError
from drgcn.studies.reproduce.backend import Watch, attempt
from drgcn.studies.reproduce.jobs import Job, JobReport

_WAIT = 1.0  # seconds, for a job that another runner has in hand


@dataclass(frozen=True)
class Turn:
    """A job's turn.

    Attributes:
        job: The job.
        attempt: Which attempt it is, from 1.
        patience: Seconds to wait if another runner has it in hand.
        alone: Whether nothing else may run beside it.
    """

    job: Job
    attempt: int = 1
    patience: float = 0.0
    alone: bool = False


class JobQueue:
    """Hands out jobs in the order given; then those that others had in hand; then the unlucky.

    A job gets its second chance at the end and alone: what kills a worker is most often
    want of memory, and that is when there is most of it.

    Args:
        jobs: The jobs, in the order in which they are to start.
    """

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._first = deque(Turn(job) for job in jobs)
        self._busy: deque[Turn] = deque()
        self._second: deque[Turn] = deque()

    def __len__(self) -> int:
        return len(self._first) + len(self._busy) + len(self._second)

    def next(self, running: Iterable[Turn]) -> Turn | None:
        """The next turn, given those that are being taken; nothing if it has to wait."""
        now = list(running)
        if any(turn.alone for turn in now):
            return None
        if self._first:
            return self._first.popleft()
        if self._busy:
            return self._busy.popleft()
        if self._second and not now:
            return self._second.popleft()
        return None

    def put_back(self, turn: Turn) -> None:
        """Takes back a job that another runner has in hand."""
        later = self._second if turn.alone else self._busy
        later.append(replace(turn, patience=_WAIT))

    def try_again(self, turn: Turn) -> None:
        """Takes back a job for one more attempt."""
        self._second.append(replace(turn, attempt=turn.attempt + 1, patience=_WAIT, alone=True))


StartMethod = Literal["spawn", "forkserver"]
_GRACE = 5.0  # seconds to clear up in, before a worker is killed


@dataclass(frozen=True)
class Surroundings:
    """What is the same for all jobs of a run."""

    out: Path
    data_root: Path | None
    device: str
    threads: int
    start: StartMethod = "spawn"


class Worker:
    """One process with a line of its own.

    A line that several processes share could be left locked by one that is killed.

    Args:
        surroundings: What is the same for all jobs.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        # Never a copy of this process, which has threads and may have CUDA in use: it may hang.
        context: Any = multiprocessing.get_context(surroundings.start)
        self.line, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, surroundings), daemon=True)
        with _deaf_to_interrupts():
            self.process.start()
        theirs.close()  # then the line ends when the process does
        self.turn: Turn | None = None

    def give(self, turn: Turn) -> None:
        """Hands it a job. If it has died meanwhile, :meth:`hear` will tell."""
        self.turn = turn
        with suppress(OSError):
            self.line.send(turn)

    def hear(self) -> float | JobReport | None:
        """How far its job is, how it ended, or nothing if another runner has it in hand.

        Raises:
            EOFError: If the process has died.
        """
        try:
            return self.line.recv()
        except OSError:
            raise EOFError from None  # it died in the middle of a message

    def end(self) -> str:
        """Waits for a process that has died, and says in words how it did."""
        self.process.join()
        self.line.close()
        code = self.process.exitcode or 0
        if code == -signal.SIGKILL:
            return "killed from outside (signal 9), most often for want of memory"
        return f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def stop(workers: list[Worker]) -> None:
    """Ends processes: each has a few seconds to remove what it has half written."""
    for worker in workers:
        worker.line.close()
        worker.process.terminate()
    try:
        for worker in workers:
            worker.process.join(_GRACE)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Lets a new process ignore Ctrl-C from its first moment: it goes to all, the runner decides.

    A process inherits what its parent ignores. Left to itself, it would print a traceback when
    interrupted while it is still importing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change this
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(line: Connection, around: Surroundings) -> None:
    """The life of a worker: a job, a report, and the next."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_end_with_runner, daemon=True).start()
    import torch

    torch.set_num_threads(around.threads)
    try:
        while True:
            turn = line.recv()
            line.send(_take(turn, line, around))
            if around.device.startswith("cuda"):
                gc.collect()
                torch.cuda.empty_cache()  # others on the same device may need it
    except (EOFError, OSError):
        pass  # the runner is gone, or has no more work
    finally:
        # On its way out already: being told once more would only print a traceback.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _take(turn: Turn, line: Connection, around: Surroundings) -> JobReport | None:
    def tell(now: Any) -> None:
        line.send(now.epochs_done / max(now.epochs_in_all, 1))

    try:
        report = attempt(
            turn.job,
            around.out,
            data_root=around.data_root,
            device=around.device,
            progress=tell,
            patience=turn.patience,
        )
    except LockedError:
        return None
    return replace(report, attempts=turn.attempt)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _end_with_runner() -> None:
    """Ends this process when the one that started it is gone, however that came about."""
    runner = multiprocessing.parent_process()
    if runner is not None:
        wait([runner.sentinel])
        os._exit(1)


_ATTEMPTS = 2
_MEMORY = ("MemoryError", "OutOfMemoryError", "AcceleratorError")


@dataclass(frozen=True)
class ProcessRunner:
    """A backend, see :mod:`drgcn.studies.reproduce.suite`: worker processes on this machine.

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
        """Yields one report per job, see :class:`~drgcn.studies.reproduce.suite.RunJobs`."""
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
