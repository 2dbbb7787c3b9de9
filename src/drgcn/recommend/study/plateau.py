"""Training until validation rises no more, in pieces that survive a kill."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.model.click_trainer import ClickTrainer
from drgcn.training.checkpoint import load_checkpoint, save_checkpoint

_BEST = "best."
Row = tuple[float, float, float]


@dataclass(frozen=True)
class Plateau:
    """How a run went.

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
        """The choice, for a record."""
        return {
            **{"best_step": self.best_step, "best_recall": self.best_recall},
            **{"steps": self.steps, "stopped": self.stopped},
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
    history: list[Row] = []
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


def _best(history: list[Row]) -> int:
    """The first look with the highest recall."""
    return max(range(len(history)), key=lambda place: (history[place][2], -place))


def _over(history: list[Row], trainer: ClickTrainer, patience: int) -> bool:
    if not history:
        return False
    return trainer.done >= trainer.steps or len(history) - 1 - _best(history) >= patience
