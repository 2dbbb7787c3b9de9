"""Run all gates and seeds of a study, one after the other or side by side."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from drgcn._processes import die_with_parent
from drgcn.errors import InputError
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.model.run_folder import Gate
from drgcn.recommend.study.run import Begin, StudyContext, parts_of, run_once
from drgcn.recommend.study.settings import StudyRecord, StudySettings

#: Settings of a run and what it is for: ``"compare"`` or ``"search"``.
Task = tuple[StudySettings, str]
SEARCH_SEED = 1_000_000  # no seed of a comparison is looked at in a search


def compare(
    data: ClickData,
    settings: StudySettings,
    out: Path | str,
    *,
    gates: Sequence[Gate] = ("none", "constant", "static", "dr"),
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    search_lr: Sequence[float] = (),
    device: torch.device | str = "cpu",
    environment: dict[str, Any] | None = None,
    checkpoint_every: float = 30.0,
    begin: Begin | None = None,
    jobs: int = 1,
    load: Callable[[], ClickData] | None = None,
) -> list[StudyRecord]:
    """Runs what is not on record yet, and returns all records that were asked for.

    Gates share everything else: learning rate, limit and patience, and for a seed first weights,
    batches and draws. Seeds are the outer loop, so that a study cut short has whole seeds.

    Args:
        data: The clicks.
        settings: What is shared; its gate and seed do not matter.
        out: Folder of the records.
        gates: Gates to compare.
        seeds: Seeds, for all gates the same.
        search_lr: Learning rates to choose from, by validation of the plain model alone, with a
            seed of its own. (default: that of the settings)
        device: Where to run.
        environment: Versions and hardware, for the records.
        checkpoint_every: Seconds between checkpoints.
        begin: Called before every run, with its record if there is one; returns what is to be
            told of its progress.
        jobs: Runs at once, in processes that share the device.
        load: With several jobs, gives the same clicks to each process; it and ``begin`` must be
            functions that can be pickled.
    """
    if not gates or not seeds:
        raise InputError("Expected at least one gate and one seed; found none.")
    parts = parts_of(data, settings)
    context = StudyContext(
        Path(out), torch.device(device), environment or {}, checkpoint_every, begin
    )

    def run(tasks: list[Task]) -> list[StudyRecord]:
        if jobs > 1 and load is not None:
            return SideBySide(load, jobs, context).records(tasks)
        return [run_once(data, parts, one, context, purpose) for one, purpose in tasks]

    if search_lr:
        plain = replace(settings, gate="none", seed=SEARCH_SEED, protocol="kept")
        tried = run([(replace(plain, lr=lr), "search") for lr in search_lr])
        settings = replace(settings, lr=max(tried, key=_recall).settings.lr)
    return run(
        [
            (replace(settings, gate=gate, seed=seed), "compare")
            for seed in seeds
            for gate in dict.fromkeys(gates)
        ]
    )


def _recall(record: StudyRecord) -> float:
    assert record.choice is not None
    return float(record.choice["best_recall"])


@dataclass(frozen=True)
class SideBySide:
    """Runs that share a device, since one small run cannot keep it busy.

    On CUDA start NVIDIA's MPS first (``nvidia-cuda-mps-control -d``): without it, processes take
    turns. Records say how many runs shared the device; but for that and their seconds they are
    those of runs one after the other.

    Attributes:
        load: Function that loads the clicks in every process; can be pickled.
        jobs: Number of processes.
        context: Place and progress of the runs.
    """

    load: Callable[[], ClickData]
    jobs: int
    context: StudyContext

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


def _prepare(pool: SideBySide) -> None:
    """Initialise a process: read the clicks, and take its share of the cores."""
    global _own, _clicks
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes itself
    torch.set_num_threads(max(torch.get_num_threads() // pool.jobs, 1))
    _own, _clicks = pool, pool.load()


def _run(settings: StudySettings, purpose: str) -> StudyRecord:
    assert _own is not None
    assert _clicks is not None
    facts = {**_own.context.environment, "jobs_on_device": _own.jobs}
    context = replace(_own.context, environment=facts)
    record = run_once(_clicks, parts_of(_clicks, settings), settings, context, purpose)
    sys.stderr.flush()
    return record
