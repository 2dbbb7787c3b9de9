"""One run of a study: train to a plateau, choose by validation, test once, record."""

from __future__ import annotations

import gc
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.data import ClickData
from drgcn.recommend.clicks.splits import ClickSplit, EvaluationSplit
from drgcn.recommend.model.embedding import embed_all, freeze
from drgcn.recommend.model.encoder import ClickAttributes
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.run_folder import build_model
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.recommend.model.training import ClickTrainer, TrainProgress, set_up, train
from drgcn.recommend.retrieval.evaluation import RankingReport, evaluate
from drgcn.recommend.study.settings import StudyRecord, StudySettings, file_name, identity, packed
from drgcn.training.checkpoint import load_checkpoint, save_checkpoint

Model = ClickSAGE | LightGCN
#: Called with step, loss and recall at every look at validation.
Look = Callable[[int, float, float], None]
#: Called before a run, with its record if there is one; returns what reports its progress.
Begin = Callable[[StudySettings, StudyRecord | None], Look | None]
RUNNING = ".checkpoints"
_BEST = "best."
_Row = tuple[float, float, float]  # step, loss, recall


@dataclass(frozen=True)
class Plateau:
    """Course of a training to its plateau.

    Attributes:
        history: Step, mean loss since the look before, and recall on validation, at every look.
        best_step: The step whose weights were kept: the first with the highest recall.
        best_recall: Recall on validation there.
        steps: Steps done.
        stopped: ``"patience"``, or ``"limit"`` if there were no more steps: then it may not have
            been a plateau.
        seconds: Seconds it took, over all attempts; looks at validation included.
    """

    history: list[dict[str, float]]
    best_step: int
    best_recall: float
    steps: int
    stopped: str
    seconds: float

    def facts(self) -> dict[str, Any]:
        """Chosen step and end of training, for a record."""
        return {
            "best_step": self.best_step,
            "best_recall": self.best_recall,
            "steps": self.steps,
            "stopped": self.stopped,
        }


def train_to_plateau(
    trainer: ClickTrainer,
    measure: Callable[[], float],
    *,
    every: int,
    patience: int,
    checkpoint: Path | None = None,
    checkpoint_every: float = 30.0,
    fingerprint: str = "",
    progress: Callable[[int, float, float], None] | None = None,
) -> Plateau:
    """Trains, and leaves the weights in the model that were best on validation.

    Checkpoints are written after a look, so a run that was killed goes on as if nothing had been.

    Args:
        trainer: The run.
        measure: Recall on validation of the model as it stands. It may change what a model has
            seen of the graph, but no weights, and leaves it ready to train.
        every: Steps between looks.
        patience: Looks without a higher recall after which to stop.
        checkpoint: File to go on from, if it is there, and to write to.
        checkpoint_every: Least seconds between checkpoints. The end is always written.
        fingerprint: What the run is; the checkpoint of another one is refused.
        progress: Called with step, loss and recall at every look.
    """
    history: list[_Row] = []
    best: dict[str, Tensor] = {}
    spent = 0.0
    found = None
    if checkpoint is not None and checkpoint.exists():
        found = load_checkpoint(checkpoint, fingerprint)
    if found is not None:
        state, spent = found
        history = [(row[0], row[1], row[2]) for row in state.pop("history").tolist()]
        device = trainer.step.device
        for name in [name for name in state if name.startswith(_BEST)]:
            best[name.removeprefix(_BEST)] = state.pop(name).to(device)
        trainer.restore(state)
    start = saved = time.perf_counter()
    while not _over(history, trainer, patience):
        before = trainer.done
        trainer.run(min(every, trainer.steps - before))
        loss = float(trainer.losses[before : trainer.done].mean())  # waits for the device
        if not math.isfinite(loss):
            raise InputError(
                f"Expected a finite loss; found {loss} after {trainer.done} steps. Use a lower "
                f"learning rate."
            )
        recall = measure()
        if not history or recall > max(row[2] for row in history):
            state_now = trainer.model.state_dict()
            best = {name: value.detach().clone() for name, value in state_now.items()}
        history.append((trainer.done, loss, recall))
        if progress is not None:
            progress(trainer.done, loss, recall)
        now = time.perf_counter()
        due = now - saved >= checkpoint_every or _over(history, trainer, patience)
        if checkpoint is not None and due:
            state = trainer.state() | {_BEST + name: value for name, value in best.items()}
            state["history"] = torch.tensor(history, dtype=torch.float64)
            save_checkpoint(checkpoint, state, spent + now - start, fingerprint)
            saved = now
    trainer.model.load_state_dict(best)
    trainer.model.eval()
    place = _best(history)
    return Plateau(
        history=[{"step": int(row[0]), "loss": row[1], "recall": row[2]} for row in history],
        best_step=int(history[place][0]),
        best_recall=history[place][2],
        steps=trainer.done,
        stopped="patience" if len(history) - 1 - place >= patience else "limit",
        seconds=spent + time.perf_counter() - start,
    )


def _best(history: list[_Row]) -> int:
    """The first look with the highest recall."""
    return max(range(len(history)), key=lambda place: (history[place][2], -place))


def _over(history: list[_Row], trainer: ClickTrainer, patience: int) -> bool:
    if not history:
        return False
    return trainer.done >= trainer.steps or len(history) - 1 - _best(history) >= patience


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
    """

    data: ClickData
    parts: EvaluationSplit
    settings: StudySettings
    device: torch.device
    folder: Path | None = None
    checkpoint_every: float = 30.0
    progress: Look | None = None

    def record(self, environment: dict[str, Any], purpose: str = "compare") -> StudyRecord:
        """Runs to the end; a search stops before the test."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        cuda = self.device.type == "cuda"
        if cuda:
            torch.cuda.reset_peak_memory_stats(self.device)
        model, plateau, steps, seconds = self._trained(purpose)
        reports: dict[int, RankingReport] = {}
        if purpose == "compare":
            begin = time.perf_counter()
            reports = self.tested(model)
            seconds["test"] = time.perf_counter() - begin
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
            trained_steps=steps,
            test={str(n): report.to_dict() for n, report in reports.items()},
            user_recall="" if first is None else packed(first),
            peak_bytes=torch.cuda.max_memory_allocated(self.device) if cuda else None,
        )

    def chosen(self) -> tuple[Model, Plateau]:
        """The model with the weights that are best on validation. Reads nothing of the test."""
        settings, split = self.settings, self.parts.validation
        clicks = split.train.num_clicks
        model = build_model(self.data, split.train, settings.model_options())
        split = split.to(self.device)
        every = settings.steps(settings.every, clicks)
        most = settings.steps(settings.epochs_max, clicks)
        trainer, attributes = set_up(model, self.data, split.train, settings.training(most))
        users = _some_users(split, settings.valid_users)

        def measure() -> float:
            model.eval()
            if isinstance(model, ClickSAGE):
                assert attributes is not None
                freeze(model, attributes, split.train)
            report = self._ranked(model, attributes, split, settings.n[0], users)
            model.train()
            return report.model["all"]["recall"].mean

        plateau = train_to_plateau(
            trainer,
            measure,
            every=every,
            patience=settings.patience,
            checkpoint=self._checkpoint("choice"),
            checkpoint_every=self.checkpoint_every,
            fingerprint=identity(settings, self.data.content_hash),
            progress=self.progress,
        )
        return model, plateau

    def tested(self, model: Model) -> dict[int, RankingReport]:
        """The reports of the test, for every length of lists."""
        split = self.parts.test.to(self.device)
        attributes = None
        if isinstance(model, ClickSAGE):
            attributes = model.prepare(self.data, self.device)
        found = {
            n: self._ranked(model, attributes, split, n, baselines=True) for n in self.settings.n
        }
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # so that its seconds are counted
        return found

    def _trained(self, purpose: str) -> tuple[Model, Plateau | None, int, dict[str, float]]:
        """The model to test, how it was chosen, its steps, and seconds."""
        settings, clicks = self.settings, self.parts.test.train.num_clicks
        if settings.protocol == "fixed" and purpose == "compare":
            steps = settings.steps(settings.epochs_max, clicks)
            model, seconds = self._trained_on_all(steps)
            return model, None, steps, {"train": seconds}
        model, plateau = self.chosen()
        if settings.protocol == "kept" or purpose == "search":
            return model, plateau, plateau.best_step, {"train": plateau.seconds}
        before = self.parts.validation.train.num_clicks
        steps = max(round(plateau.best_step * clicks / before), 1)  # as many epochs
        model, seconds = self._trained_on_all(steps)
        return model, plateau, steps, {"train": plateau.seconds, "refit": seconds}

    def _trained_on_all(self, steps: int) -> tuple[Model, float]:
        """A new model trained on all that comes before the test."""
        graph = self.parts.test.train
        model = build_model(self.data, graph, self.settings.model_options())
        done = train(
            model,
            self.data,
            graph,
            self.settings.training(steps),
            device=self.device,
            checkpoint=self._checkpoint("all"),
            checkpoint_every=self.checkpoint_every,
            progress=self._report,
        )
        return model, done.seconds

    def _ranked(
        self,
        model: Model,
        attributes: ClickAttributes | None,
        split: ClickSplit,
        n: int,
        users: torch.Tensor | None = None,
        baselines: bool = False,
    ) -> RankingReport:
        vectors = embed_all(model, self.data if attributes is None else attributes, split.train)
        return evaluate(
            *vectors,
            split,
            n,
            exclude_seen=self.settings.exclude_seen,
            users=users,
            baselines=baselines,
        )

    def _report(self, now: TrainProgress) -> None:
        if self.progress is not None:
            self.progress(now.step, now.loss, math.nan)

    def _checkpoint(self, stage: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{stage}.safetensors"


def _some_users(split: ClickSplit, most: int) -> torch.Tensor | None:
    """Evenly spaced ones of the users with something to find."""
    found = (split.targets.by_user.degree > 0).nonzero().flatten()
    if not most or found.numel() <= most:
        return None
    return found[torch.arange(most, device=found.device) * found.numel() // most]


def parts_of(data: ClickData, settings: StudySettings) -> EvaluationSplit:
    """Split the clicks as the settings say."""
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
    """

    out: Path
    device: torch.device
    environment: dict[str, Any] = field(default_factory=dict)
    checkpoint_every: float = 30.0
    begin: Begin | None = None


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
        shutil.rmtree(folder, ignore_errors=True)  # left by a kill after the record was written
        return record
    look = context.begin(settings, None) if context.begin is not None else None
    run = StudyRun(data, parts, settings, context.device, folder, context.checkpoint_every, look)
    record = run.record(context.environment, purpose)
    record.save(context.out)
    shutil.rmtree(folder, ignore_errors=True)
    gc.collect()  # a trainer holds itself by its recorded step, and that a pool of device memory
    return record
