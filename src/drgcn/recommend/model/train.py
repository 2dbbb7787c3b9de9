"""Training from the first step or the last checkpoint to the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.click_trainer import ClickTrainer
from drgcn.recommend.model.embedding import freeze
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.run_fingerprint import run_fingerprint
from drgcn.recommend.model.train_settings import TrainSettings
from drgcn.recommend.model.trainer_setup import set_up
from drgcn.training.checkpoint import load_checkpoint, save_checkpoint

_LOOK_EVERY = 1.0  # seconds between looks at the device
_LARGE = 1 << 30  # numbers in a layer's tables from which they are held in half precision


@dataclass(frozen=True)
class TrainProgress:
    """Where a run stands.

    Attributes:
        step: Steps done.
        steps: Steps in all.
        loss: Mean loss since the last report.
        seconds: Seconds spent so far, over all attempts.
        seconds_left: Seconds to go at the pace of this attempt.
    """

    step: int
    steps: int
    loss: float
    seconds: float
    seconds_left: float


@dataclass(frozen=True, eq=False)
class TrainResult:
    """What a run leaves beside the weights.

    Attributes:
        losses: Loss of every step.
        seconds: Seconds it took, over all attempts.
        steps: Steps done.
        fingerprint: What the run was, in a few letters.
    """

    losses: Tensor
    seconds: float
    steps: int
    fingerprint: str


def train(
    model: ClickSAGE | LightGCN,
    data: ClickData,
    graph: ClickGraph | None = None,
    settings: TrainSettings | None = None,
    *,
    targets: ClickGraph | None = None,
    exchange: Exchange | None = None,
    device: torch.device | str = "cpu",
    checkpoint: Path | str | None = None,
    checkpoint_every: float = 60.0,
    progress: Callable[[TrainProgress], None] | None = None,
) -> TrainResult:
    """Trains a model in place and shows it the whole graph at the end.

    Every batch and every draw is a function of seed, step and rank. A run that was killed and is
    started again with the same arguments goes on from its checkpoint, on CPU to the same bits (on
    CUDA sums of gradients have no fixed order).

    Args:
        model: The model.
        data: Attributes; and clicks, if no graph is given.
        graph: Whose clicks make neighbours. (default: all of the data)
        settings: How to train.
        targets: The clicks to learn, if not those of the graph: the next day's, say.
        exchange: The other ranks. (default: none)
        device: Where to train.
        checkpoint: File to go on from, if it is there, and to write to.
        checkpoint_every: Seconds between checkpoints; zero for one after every step.
        progress: Called about once a second.

    Raises:
        InputError: If the loss is not finite at some step.
    """
    settings, exchange = settings or TrainSettings(), exchange or Exchange()
    device = torch.device(device)
    graph = (data.graph if graph is None else graph).to(device)
    targets = graph if targets is None else targets.to(device)
    trainer, attributes = set_up(model, data, graph, settings, targets=targets, exchange=exchange)
    fingerprint = run_fingerprint(model, data, graph, targets, settings)
    path = None if checkpoint is None else Path(checkpoint)
    spent = 0.0
    if path is not None and path.exists():
        found = load_checkpoint(path, fingerprint)
        if found is not None:
            trainer.restore(found[0])
            spent = found[1]
    writes = path if exchange.rank == 0 else None
    seconds = _run(trainer, spent, writes, checkpoint_every, fingerprint, progress)
    if isinstance(model, ClickSAGE):
        assert attributes is not None
        nodes = graph.num_users + graph.num_items
        half = nodes * model.settings["hidden_channels"] >= _LARGE
        freeze(model, attributes, graph, dtype=torch.float16 if half else None)
    model.eval()
    return TrainResult(trainer.losses.cpu(), seconds, trainer.steps, fingerprint)


def _run(
    trainer: ClickTrainer,
    spent: float,
    path: Path | None,
    checkpoint_every: float,
    fingerprint: str,
    progress: Callable[[TrainProgress], None] | None,
) -> float:
    """Runs to the end; returns the seconds it took, over all attempts."""
    start = saved = looked = time.perf_counter()
    first = reported = trainer.done
    stride = 1
    _expect_finite(trainer)
    while trainer.done < trainer.steps:
        trainer.run(min(stride, trainer.steps - trainer.done))
        _wait(trainer)
        if trainer.exchange.size == 1 or trainer.done == trainer.steps:
            _expect_finite(trainer)  # ranks look at times of their own; at the end all do
        now = time.perf_counter()
        done, seconds = trainer.done, spent + now - start
        if path is not None and (now - saved >= checkpoint_every or done == trainer.steps):
            save_checkpoint(path, trainer.state(), seconds, fingerprint)
            saved = now
        # Looking waits for the device, so it is done about once a second; every step would be
        # looked at if every step were to be saved.
        pace = (now - start) / max(done - first, 1)
        stride = 1 if checkpoint_every == 0 else max(int(_LOOK_EVERY / max(pace, 1e-6) / 4), 1)
        if progress is not None and (now - looked >= _LOOK_EVERY or done == trainer.steps):
            loss = float(trainer.losses[reported:done].mean())
            left = pace * (trainer.steps - done)
            progress(TrainProgress(done, trainer.steps, loss, seconds, left))
            looked, reported = now, done
    return spent + time.perf_counter() - start


def _wait(trainer: ClickTrainer) -> None:
    if trainer.step.is_cuda:
        torch.cuda.synchronize(trainer.step.device)


def _expect_finite(trainer: ClickTrainer) -> None:
    """Refuses to go on, or to save, after a loss that no later step can mend."""
    bad = (~trainer.losses[: trainer.done].isfinite()).nonzero()
    if len(bad):
        raise InputError(
            f"Expected a finite loss; found {float(trainer.losses[bad[0, 0]])} at step "
            f"{int(bad[0, 0]) + 1} of {trainer.steps}. Lower the learning rate (--lr)."
        )
