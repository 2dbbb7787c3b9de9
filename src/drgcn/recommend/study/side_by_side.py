"""Several runs of a study at once, each in a process of its own, on one device."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.distributed.parent_death import die_with_parent
from drgcn.recommend.study.run_once import Begin, parts_of, run_once
from drgcn.recommend.study.study_record import StudyRecord
from drgcn.recommend.study.study_settings import StudySettings

#: Settings of a run and what it is for: ``"compare"`` or ``"search"``.
Task = tuple[StudySettings, str]


@dataclass(frozen=True)
class SideBySide:
    """Runs that share a device, since one small run cannot keep it busy.

    On CUDA start NVIDIA's MPS first (``nvidia-cuda-mps-control -d``): without it, processes take
    turns. Records say how many runs shared the device; but for that and their seconds they are
    those of runs one after the other.

    Attributes:
        load: Gives the clicks to every process: a function that can be pickled.
        jobs: How many processes.
        out: Folder of the records.
        device: Where to run.
        environment: Versions and hardware, for the records.
        checkpoint_every: Seconds between checkpoints.
        begin: As in :func:`~drgcn.recommend.study.compare.compare`, and can be pickled.
    """

    load: Callable[[], ClickData]
    jobs: int
    out: Path
    device: torch.device
    environment: dict[str, Any] = field(default_factory=dict)
    checkpoint_every: float = 30.0
    begin: Begin | None = None

    def records(self, tasks: Iterable[Task]) -> list[StudyRecord]:
        """All records in the order of the tasks."""
        pool = ProcessPoolExecutor(
            self.jobs,
            mp_context=multiprocessing.get_context("spawn"),  # CUDA does not survive a fork
            initializer=_prepare,
            initargs=(self,),
        )
        waiting = [pool.submit(_run, *task) for task in tasks]
        try:
            return [one.result() for one in waiting]
        except BrokenProcessPool:
            raise InputError(
                f"Expected {self.jobs} runs to fit side by side; found that the process of one "
                f"was ended, perhaps for want of memory. Give fewer --jobs; what is on record is "
                f"kept."
            ) from None
        except BaseException:  # Ctrl-C too: what runs goes on from its checkpoint another time
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_own: SideBySide | None = None  # of a process that was started for runs
_clicks: ClickData | None = None


def _prepare(asked: SideBySide) -> None:
    """What a process does once: it reads the clicks, and takes its share of the cores."""
    global _own, _clicks
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes itself
    torch.set_num_threads(max(torch.get_num_threads() // asked.jobs, 1))
    _own, _clicks = asked, asked.load()


def _run(settings: StudySettings, purpose: str) -> StudyRecord:
    assert _own is not None
    assert _clicks is not None
    record = run_once(
        *(_clicks, parts_of(_clicks, settings), settings, _own.out, _own.device),
        {**_own.environment, "jobs_on_device": _own.jobs},
        purpose=purpose,
        checkpoint_every=_own.checkpoint_every,
        begin=_own.begin,
    )
    sys.stderr.flush()
    return record
