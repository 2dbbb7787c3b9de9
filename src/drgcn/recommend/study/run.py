"""Runs of a study: train to a plateau, choose by validation, test once, record; all gates and
seeds, one after the other or side by side."""

from __future__ import annotations

import gc
import math
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from drgcn._io import remove_folder
from drgcn._processes import die_with_parent
from drgcn.errors import InputError
from drgcn.recommend.clicks.data import ClickData, expect_ages
from drgcn.recommend.clicks.splits import EvaluationSplit
from drgcn.recommend.distributed.group import Exchange
from drgcn.recommend.model.embedding import embed_all
from drgcn.recommend.model.fitting import Fit, Fitting, Look, Plateau, choose_half_life
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.run_folder import Gate, relative_source, save_run
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.recommend.model.training import TrainProgress
from drgcn.recommend.retrieval.evaluation import RankingReport, evaluate
from drgcn.recommend.study.settings import StudyRecord, StudySettings, file_name, identity, packed

Model = ClickSAGE | LightGCN
#: Called before a run, with its record if there is one; returns what reports its progress.
Begin = Callable[[StudySettings, StudyRecord | None], Look | None]
#: Settings of a run and what it is for: ``"compare"`` or ``"search"``.
Task = tuple[StudySettings, str]
RUNNING = ".checkpoints"
SEARCH_SEED = 1_000_000  # no seed of a comparison is looked at in a search


@dataclass(frozen=True)
class StudyRun:
    """A run that can be killed at any time and started again.

    Attributes:
        data: The attributes.
        parts: The clicks.
        settings: What to run.
        device: Where.
        folder: Where checkpoints lie until the record is written; ``None`` for none.
        checkpoint_every: Seconds between checkpoints.
        progress: Called with step, loss and recall at every look at validation; where there is
            no validation, about once a second with a recall that is not a number.
        keep: Where to leave the model as a run that can be evaluated and exported; ``None`` not
            to.
        source: Where the clicks came from, for that run; see :class:`StudyContext`.
    """

    data: ClickData
    parts: EvaluationSplit
    settings: StudySettings
    device: torch.device
    folder: Path | None = None
    checkpoint_every: float = 30.0
    progress: Look | None = None
    keep: Path | None = None
    source: dict[str, str] = field(default_factory=dict)

    def record(self, environment: dict[str, Any], purpose: str = "compare") -> StudyRecord:
        """Run to the end; a search stops before the test."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        cuda = self.device.type == "cuda"
        if cuda:
            torch.cuda.reset_peak_memory_stats(self.device)
        fit = self._trained(purpose)
        model, plateau, seconds = fit.model, fit.plateau, fit.seconds
        reports: dict[int, RankingReport] = {}
        if purpose == "compare":
            begin = time.perf_counter()
            reports = self.tested(model)
            seconds["test"] = time.perf_counter() - begin
        if self.keep is not None and purpose == "compare":
            self._save(self.keep, fit, environment)
        first = reports[self.settings.n[0]].values.recall.numpy() if reports else None
        return StudyRecord(
            settings=self.settings,
            data={
                "name": self.data.name,
                "content_hash": self.data.content_hash,
                "users": self.parts.graph.num_users,
                "items": self.parts.graph.num_items,
                "clicks": self.parts.graph.num_clicks,
                **self.parts.facts(),
            },
            purpose=purpose,
            model=model.settings,
            environment=environment,
            started=started,
            seconds={name: round(value, 3) for name, value in seconds.items()},
            choice=None if plateau is None else plateau.facts(),
            history=[] if plateau is None else plateau.history,
            trained_steps=fit.steps,
            test={str(n): report.to_dict() for n, report in reports.items()},
            user_recall="" if first is None else packed(first),
            peak_bytes=torch.cuda.max_memory_allocated(self.device) if cuda else None,
        )

    def chosen(self) -> tuple[Model, Plateau]:
        """The model with the weights that are best on validation. Reads nothing of the test."""
        fit = self._fitting().validated(self.parts.validation, self.settings.stopping())
        assert fit.plateau is not None
        return fit.model, fit.plateau

    def tested(self, model: Model) -> dict[int, RankingReport]:
        """The reports of the test, for every length of lists."""
        split = self.parts.test.to(self.device)
        vectors = embed_all(model, self.data, split.train)
        seen = self.settings.exclude_seen
        found = {n: evaluate(*vectors, split, n, exclude_seen=seen) for n in self.settings.n}
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # so that its seconds are counted
        return found

    def _trained(self, purpose: str) -> Fit:
        """The model to test."""
        settings, graph = self.settings, self.parts.test.train
        fitting, validation = self._fitting(), self.parts.validation
        if settings.protocol == "fixed" and purpose == "compare":
            return fitting.fixed(graph)
        if settings.protocol == "kept" or purpose == "search":
            return fitting.validated(validation, settings.stopping())
        return fitting.refitted(validation, settings.stopping(), graph)

    def _fitting(self) -> Fitting:
        settings = self.settings
        steps = settings.steps(settings.epochs_max, self.parts.test.train.num_clicks)
        return Fitting(
            self.data,
            settings.model_options(),
            settings.training(steps),
            Exchange(),
            self.device,
            choice=self._checkpoint("choice"),
            checkpoint=self._checkpoint("all"),
            checkpoint_every=self.checkpoint_every,
            look=self.progress,
            progress=self._report,
        )

    def _save(self, keep: Path, fit: Fit, environment: dict[str, Any]) -> None:
        settings, graph = self.settings, self.parts.test.train
        if settings.split == "time":
            day = self.data.graph.day_range[1] - settings.days + 1
        else:
            day = self.data.parts.index("test")
        facts = {
            "data": self.data.name,
            "content_hash": self.data.content_hash,
            "day": day,
            **relative_source(self.source, keep),
            **asdict(settings.training(fit.steps)),
        }
        record = {
            "data": self.data.name,
            "content_hash": self.data.content_hash,
            "clicks": graph.num_clicks,
            "steps": fit.steps,
            "seconds": sum(fit.seconds.values()),
            "validation": None if fit.plateau is None else fit.plateau.facts(),
            "environment": environment,
        }
        save_run(keep, fit.model, facts, fit.losses, record)

    def _report(self, now: TrainProgress) -> None:
        if self.progress is not None:
            self.progress(now.step, now.loss, math.nan)

    def _checkpoint(self, stage: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{stage}.safetensors"


def parts_of(data: ClickData, settings: StudySettings) -> EvaluationSplit:
    """Split the clicks as the settings say.

    Raises:
        InputError: If they cannot be split so, or the lists that are compared hold all items.
    """
    if settings.n[0] >= data.graph.num_items:
        raise InputError(
            f"Expected lists shorter than the {data.graph.num_items:,} items; found "
            f"{settings.n[0]:,}, which find everything whatever the model. Give fewer (--n)."
        )
    if settings.split == "official":
        return EvaluationSplit.official(data, settings.hold_out)
    return EvaluationSplit.by_time(data, settings.days)


@dataclass(frozen=True)
class StudyContext:
    """Place and progress of the runs of a study; nothing in it changes a number.

    Attributes:
        out: Folder of the records.
        device: Device of the runs.
        environment: Versions and hardware, for the records.
        checkpoint_every: Seconds between checkpoints.
        begin: Called before every run; can be pickled if runs are to share a device.
        runs: Folder in which every run leaves its model, in a folder named like its record;
            ``None`` not to.
        source: Where the clicks came from: their ``folder``, and the name of a ``known`` set.
    """

    out: Path
    device: torch.device
    environment: dict[str, Any] = field(default_factory=dict)
    checkpoint_every: float = 30.0
    begin: Begin | None = None
    runs: Path | None = None
    source: dict[str, str] = field(default_factory=dict)


def run_once(
    data: ClickData,
    parts: EvaluationSplit,
    settings: StudySettings,
    context: StudyContext,
    purpose: str = "compare",
) -> StudyRecord:
    """Return the record of a run; without one, run it and write its record."""
    known = identity(settings, data.content_hash, purpose)
    path = context.out / file_name(settings, data.name, known, purpose)
    folder = context.out / RUNNING / known[:16]
    if path.exists():
        record = StudyRecord.read(path)
        if context.begin is not None:
            context.begin(settings, record)
        remove_folder(folder)  # left by a kill after the record was written
        return record
    look = context.begin(settings, None) if context.begin is not None else None
    run = StudyRun(
        data,
        parts,
        settings,
        context.device,
        folder,
        context.checkpoint_every,
        look,
        None if context.runs is None else context.runs / path.stem,
        context.source,
    )
    record = run.record(context.environment, purpose)
    record.save(context.out)
    remove_folder(folder)
    gc.collect()  # a trainer holds itself by its recorded step, and that a pool of device memory
    return record


def compare(
    data: ClickData,
    settings: StudySettings,
    out: Path | str,
    *,
    gates: Sequence[Gate] = ("none", "constant", "static", "dr"),
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    search_lr: Sequence[float] = (),
    half_lives: Sequence[float] = (),
    device: torch.device | str = "cpu",
    environment: dict[str, Any] | None = None,
    checkpoint_every: float = 30.0,
    begin: Begin | None = None,
    jobs: int = 1,
    load: Callable[[], ClickData] | None = None,
    runs: Path | str | None = None,
    source: dict[str, str] | None = None,
) -> list[StudyRecord]:
    """Run what is not on record yet, and return all records that were asked for.

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
        half_lives: Half-lives to choose from by validation, once for all runs. (default: that of
            the settings)
        device: Where to run.
        environment: Versions and hardware, for the records.
        checkpoint_every: Seconds between checkpoints.
        begin: Called before every run, with its record if there is one; returns what is to be
            told of its progress.
        jobs: Runs at once, in processes that share the device.
        load: With several jobs, gives the same clicks to each process; it and ``begin`` must be
            functions that can be pickled.
        runs: Folder in which every run leaves its model. (default: none is left)
        source: Where the clicks came from, see :class:`StudyContext`.
    """
    if not gates or not seeds:
        raise InputError("Expected at least one gate and one seed; found none.")
    parts = parts_of(data, settings)
    if half_lives:
        found, _ = choose_half_life(data, parts.validation, settings.stopping(), half_lives)
        settings = replace(settings, half_life=found)
    if settings.half_life is not None:
        expect_ages(data)
    context = StudyContext(
        Path(out),
        torch.device(device),
        environment or {},
        checkpoint_every,
        begin,
        None if runs is None else Path(runs),
        source or {},
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
