"""Training for as long as validation says: looks, patience, kept weights, and a refit."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.data import ClickData, click_weights
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.clicks.splits import ClickSplit
from drgcn.recommend.distributed.group import Exchange
from drgcn.recommend.model.embedding import embed_all, freeze
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.objectives import TrainSettings
from drgcn.recommend.model.run_folder import ModelOptions, Origin, build_model
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.recommend.model.training import (
    ClickTrainer,
    TrainProgress,
    TrainResult,
    run_fingerprint,
    set_up,
    train,
)
from drgcn.recommend.retrieval.evaluation import evaluate, popular_items
from drgcn.recommend.retrieval.ranking import Popularity, is_seen
from drgcn.training.checkpoint import load_checkpoint, save_checkpoint

#: Called with step, loss and recall at every look at validation.
Look = Callable[[int, float, float], None]
_BEST = "best."
_CHOOSING = 10_000  # users at most that a term for popularity is chosen by
_Row = tuple[float, float, float]  # step, loss, recall


@dataclass(frozen=True)
class Stopping:
    """Rule by which a training ends.

    Attributes:
        epochs_max: Most epochs.
        every: Epochs between two looks at validation.
        patience: Looks without a better one after which training stops.
        n: Length of the lists whose recall is looked at.
        exclude_seen: Leave out what a user has clicked before.
        most_users: At most so many users are looked at; 0 for all.
    """

    epochs_max: float = 100.0
    every: float = 1.0
    patience: int = 10
    n: int = 20
    exclude_seen: bool = True
    most_users: int = 0

    def __post_init__(self) -> None:
        if not (self.every > 0 and self.epochs_max > 0 and self.patience > 0 and self.n > 0):
            raise InputError(
                f"Expected epochs, epochs between looks, patience and lists above zero; found "
                f"{self.epochs_max}, {self.every}, {self.patience} and {self.n}."
            )


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
    exchange: Exchange | None = None,
    checkpoint: Path | None = None,
    checkpoint_every: float = 30.0,
    fingerprint: str = "",
    progress: Look | None = None,
) -> Plateau:
    """Trains, and leaves the weights in the model that were best on validation.

    Checkpoints are written after a look, so a run that was killed goes on as if nothing had been.

    Args:
        trainer: The run.
        measure: Recall on validation of the model as it stands. It may change what a model has
            seen of the graph, but no weights, and leaves it ready to train.
        every: Steps between looks.
        patience: Looks without a higher recall after which to stop.
        exchange: The other ranks: all look, and go by the mean. (default: none)
        checkpoint: File to go on from, if it is there, and to write to.
        checkpoint_every: Least seconds between checkpoints. The end is always written.
        fingerprint: What the run is; the checkpoint of another one is refused.
        progress: Called with step, loss and recall at every look.
    """
    exchange = exchange or Exchange()
    history: list[_Row] = []
    best: dict[str, Tensor] = {}
    spent = 0.0
    found = None if checkpoint is None else load_checkpoint(checkpoint, fingerprint)
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
                f"learning rate (--lr)."
            )
        here = torch.tensor([measure()], dtype=torch.float64, device=trainer.step.device)
        recall = float(exchange.mean(here))
        if not history or recall > max(row[2] for row in history):
            state_now = trainer.model.state_dict()
            best = {name: value.detach().clone() for name, value in state_now.items()}
        history.append((trainer.done, loss, recall))
        if progress is not None:
            progress(trainer.done, loss, recall)
        now = time.perf_counter()
        due = now - saved >= checkpoint_every or _over(history, trainer, patience)
        if checkpoint is not None and exchange.rank == 0 and due:
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


@dataclass(frozen=True, eq=False)
class Fit:
    """A trained model and how it came about.

    Attributes:
        model: The model, ready to embed.
        plateau: Course of the training that validation watched; ``None`` if there was none.
        steps: Steps behind the weights.
        losses: Loss of each of them.
        seconds: Seconds of each stage: ``train``, and ``refit`` if there was one.
        fingerprint: Hash of model, settings and clicks of the last stage.
        popularity: Term of its scores for the popularity of items.
        popularity_recalls: Recall on validation with each term that was tried.
    """

    model: ClickSAGE | LightGCN
    plateau: Plateau | None
    steps: int
    losses: Tensor
    seconds: dict[str, float]
    fingerprint: str
    popularity: Popularity = field(default_factory=Popularity)
    popularity_recalls: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Fitting:
    """A training from fresh weights to the model that is to be used; it can be killed at any time
    and started again.

    Attributes:
        data: Attributes.
        options: Kind, widths and first weights of the model.
        settings: Batches, loss and optimiser. Its epochs and steps hold where nothing validates.
        exchange: The other ranks.
        device: Where to train.
        choice: Checkpoint of the training that validation watches; ``None`` for none.
        checkpoint: Checkpoint of a training of known length; ``None`` for none.
        checkpoint_every: Seconds between checkpoints.
        look: Called with step, loss and recall at every look at validation.
        progress: Called about once a second where nothing validates.
        origin: A model whose weights every training begins with. (default: fresh weights)
        popularity: Terms of scores for the popularity of items, of which validation chooses; a
            training of known length takes the first.
    """

    data: ClickData
    options: ModelOptions
    settings: TrainSettings
    exchange: Exchange
    device: torch.device
    choice: Path | None = None
    checkpoint: Path | None = None
    checkpoint_every: float = 60.0
    look: Look | None = None
    progress: Callable[[TrainProgress], None] | None = None
    origin: Origin | None = None
    popularity: Sequence[Popularity] = (Popularity(),)

    def fixed(self, graph: ClickGraph, targets: ClickGraph | None = None) -> Fit:
        """Train for the epochs or steps of the settings.

        Args:
            graph: Clicks that make neighbours.
            targets: Clicks to learn. (default: those of the graph)
        """
        model, done = self._train(graph, targets, self.settings)
        seconds = {"train": done.seconds}
        facts = (done.losses, seconds, done.fingerprint, self.popularity[0])
        return Fit(model, None, done.steps, *facts)

    def validated(self, split: ClickSplit, stopping: Stopping) -> Fit:
        """Train until validation no longer rises, and keep the weights that were best."""
        clicks = split.train.num_clicks
        model = build_model(self.data, split.train, self.options, self.origin)
        split = split.to(self.device)
        most = steps_of(stopping.epochs_max, clicks, self.settings.batch_size)
        settings = replace(self.settings, steps=most)
        trainer, attributes = set_up(
            model, self.data, split.train, settings, exchange=self.exchange
        )
        users = _some_users(split, stopping.most_users)

        def embedded() -> tuple[Tensor, Tensor]:
            model.eval()
            if isinstance(model, ClickSAGE):
                assert attributes is not None
                freeze(model, attributes, split.train)
            known = self.data if attributes is None else attributes
            return embed_all(model, known, split.train)

        def measure() -> float:
            recall = _recall(embedded(), split, stopping, users)
            model.train()
            return recall

        digest = self._digest
        known = run_fingerprint(model, self.data, split.train, split.targets, settings, digest)
        known = hashlib.sha256(repr((known, asdict(stopping))).encode()).hexdigest()
        plateau = train_to_plateau(
            trainer,
            measure,
            every=steps_of(stopping.every, clicks, self.settings.batch_size),
            patience=stopping.patience,
            exchange=self.exchange,
            checkpoint=self.choice,
            checkpoint_every=self.checkpoint_every,
            fingerprint=known,
            progress=self.look,
        )
        losses = trainer.losses[: plateau.best_step].cpu()
        seconds = {"train": plateau.seconds}
        fit = Fit(model, plateau, plateau.best_step, losses, seconds, known, self.popularity[0])
        if len(self.popularity) == 1:
            return fit
        recalls = self._popularity_recalls(embedded(), model.temperature, split, stopping)
        best = max(recalls, key=lambda one: recalls[one])  # of equals the first
        named = {str(one): recall for one, recall in recalls.items()}
        return replace(fit, popularity=best, popularity_recalls=named)

    def _popularity_recalls(
        self,
        vectors: tuple[Tensor, Tensor],
        temperature: float,
        split: ClickSplit,
        stopping: Stopping,
    ) -> dict[Popularity, float]:
        """Recall on validation with each of the terms."""
        users = _some_users(split, min(stopping.most_users or _CHOOSING, _CHOOSING))
        kinds = {one.half_life: one for one in (Popularity(), *self.popularity)}
        counts = {each: one.counts(self.data, split.train) for each, one in kinds.items()}
        return {
            one: _recall(
                one.joined_by_counts(*vectors, counts, temperature), split, stopping, users
            )
            for one in self.popularity
        }

    def refitted(self, split: ClickSplit, stopping: Stopping, graph: ClickGraph) -> Fit:
        """Choose a number of epochs by validation, then train a new model on all clicks for as
        many.

        Args:
            split: Clicks to learn from and to validate by.
            stopping: Rule by which the first training ends.
            graph: All clicks.
        """
        chosen = self.validated(split, stopping)
        steps = max(round(chosen.steps * graph.num_clicks / split.train.num_clicks), 1)
        model, done = self._train(graph, None, replace(self.settings, steps=steps))
        seconds = {**chosen.seconds, "refit": done.seconds}
        return replace(
            chosen,
            model=model,
            steps=steps,
            losses=done.losses,
            seconds=seconds,
            fingerprint=done.fingerprint,
        )

    def _train(
        self, graph: ClickGraph, targets: ClickGraph | None, settings: TrainSettings
    ) -> tuple[ClickSAGE | LightGCN, TrainResult]:
        model = build_model(self.data, graph, self.options, self.origin)
        done = train(
            model,
            self.data,
            graph,
            settings,
            targets=targets,
            exchange=self.exchange,
            device=self.device,
            checkpoint=self.checkpoint,
            checkpoint_every=self.checkpoint_every,
            progress=self.progress,
            origin=self._digest,
        )
        return model, done

    @property
    def _digest(self) -> str:
        return "" if self.origin is None else self.origin.digest


def _recall(
    vectors: tuple[Tensor, Tensor], split: ClickSplit, stopping: Stopping, users: Tensor | None
) -> float:
    report = evaluate(
        *vectors,
        split,
        stopping.n,
        exclude_seen=stopping.exclude_seen,
        users=users,
        baselines=False,
    )
    return report.model["all"]["recall"].mean


def popular_recall(split: ClickSplit, stopping: Stopping, weights: Tensor | None = None) -> float:
    """Recall of the most clicked items where a training is looked at: what it has to beat.

    Args:
        split: Clicks that count, and those to find.
        stopping: Length of the lists, and who is looked at.
        weights: How much each click counts. (default: all the same)
    """
    train, targets = split.train.by_user, split.targets.by_user
    users = _some_users(split, stopping.most_users)
    if users is None:
        users = (targets.degree > 0).nonzero().flatten()
    n = min(stopping.n, train.num_cols)
    options: dict[str, Any] = {"exclude_seen": stopping.exclude_seen, "weights": weights}
    lists = popular_items(train, users, n, **options)
    found = is_seen(targets, users, lists).sum(dim=1).double()
    return float((found / targets.degree[users]).mean())


def choose_half_life(
    data: ClickData, split: ClickSplit, stopping: Stopping, candidates: Sequence[float]
) -> tuple[float | None, dict[str, float]]:
    """Choose after how many days a click counts half, by validation.

    The measure is the recall of lists of popular items, whose clicks are counted by their age:
    a training for each candidate would take as many times as long.

    Args:
        data: All clicks, with their days.
        split: Clicks to count and clicks to validate by; nothing of the test is in it.
        stopping: Length of the lists, and who is looked at.
        candidates: Half-lives in days. That all clicks count the same is tried too.

    Returns:
        The best, ``None`` if all clicks are to count the same; and the recall of each.
    """
    recalls = {"none": popular_recall(split, stopping)}
    for half_life in candidates:
        weights = click_weights(data, split.train, half_life)
        recalls[f"{half_life:g}"] = popular_recall(split, stopping, weights)
    best = max(recalls, key=lambda name: recalls[name])
    return None if best == "none" else float(best), recalls


def steps_of(epochs: float, clicks: int, batch_size: int) -> int:
    """Steps that show so many clicks so often, to the nearest; at least one."""
    return max(round(epochs * clicks / batch_size), 1)


def _some_users(split: ClickSplit, most: int) -> Tensor | None:
    """Evenly spaced ones of the users with something to find."""
    found = (split.targets.by_user.degree > 0).nonzero().flatten()
    if not most or found.numel() <= most:
        return None
    return found[torch.arange(most, device=found.device) * found.numel() // most]
