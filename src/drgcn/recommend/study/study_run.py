"""One run of the study: train, choose by validation, test once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_split import ClickSplit
from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.embedding import embed_all, freeze
from drgcn.recommend.model.encoded_attributes import ClickAttributes
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.train import TrainProgress, train
from drgcn.recommend.model.trainer_setup import set_up
from drgcn.recommend.retrieval.evaluation import evaluate
from drgcn.recommend.retrieval.ranking_report import RankingReport
from drgcn.recommend.study.assembling import build_model, wait_for
from drgcn.recommend.study.plateau import Plateau, train_to_plateau
from drgcn.recommend.study.study_record import StudyRecord, identity, packed
from drgcn.recommend.study.study_settings import StudySettings
from drgcn.recommend.study.three_parts import ThreeParts

Model = ClickSAGE | LightGCN
Look = Callable[[int, float, float], None]


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
    parts: ThreeParts
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
                **{"name": self.data.name, "content_hash": self.data.content_hash},
                **{"users": self.parts.graph.num_users, "items": self.parts.graph.num_items},
                **{"clicks": self.parts.graph.num_clicks, **self.parts.facts()},
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
        model = build_model(self.data, split.train, settings)
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
            *(trainer, measure),
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
        wait_for(self.device)
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
        model = build_model(self.data, graph, self.settings)
        done = train(
            *(model, self.data, graph, self.settings.training(steps)),
            device=self.device,
            checkpoint=self._checkpoint("all"),
            checkpoint_every=self.checkpoint_every,
            progress=self._tell,
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
            *(*vectors, split, n),
            exclude_seen=self.settings.exclude_seen,
            users=users,
            baselines=baselines,
        )

    def _tell(self, now: TrainProgress) -> None:
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
