"""A process that runs jobs, and the end of the line that the runner holds."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from drgcn.studies.reproduce.backend import attempt
from drgcn.studies.reproduce.job_lock import JobBusyError
from drgcn.studies.reproduce.job_queue import Turn
from drgcn.studies.reproduce.job_report import JobReport

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
    except JobBusyError:
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
