"""Training from the first step or the last checkpoint to the end."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.clicks.click_data import ClickData
from drgcn.recommend.clicks.click_graph import ClickGraph
from drgcn.recommend.model.click_sage import ClickSAGE
from drgcn.recommend.model.click_trainer import ClickTrainer, Objective
from drgcn.recommend.model.embedding import freeze
from drgcn.recommend.model.exchange import Exchange
from drgcn.recommend.model.lightgcn import LightGCN
from drgcn.recommend.model.lightgcn_objective import LightGCNObjective
from drgcn.recommend.model.positives import Positives
from drgcn.recommend.model.sage_objective import SAGEObjective
from drgcn.recommend.model.train_settings import TrainSettings
from drgcn.training.checkpoint import load_checkpoint, save_checkpoint
from drgcn.training.streams import mix

_LOOK_EVERY = 1.0  # seconds between looks at the device
_CHUNK = 1 << 24
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
    model.to(device).train()
    positives = Positives(targets, settings.batch_size, settings.seed, settings.draw, exchange)
    steps = settings.steps or positives.steps(settings.epochs)
    objective: Objective
    decay = 0.0
    if isinstance(model, LightGCN):
        objective = LightGCNObjective(model, graph, targets, settings, exchange)
    else:
        attributes = model.prepare(data, device)
        objective = SAGEObjective(model, attributes, graph, targets, settings, exchange)
        decay = settings.weight_decay
    trainer = ClickTrainer(
        *(model, objective, positives, steps),
        lr=settings.lr,
        weight_decay=decay,
        exchange=exchange,
    )
    fingerprint = _fingerprint(model, data, graph, targets, settings)
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
        nodes = graph.num_users + graph.num_items
        half = nodes * model.settings["hidden_channels"] >= _LARGE
        freeze(model, attributes, graph, dtype=torch.float16 if half else None)
    model.eval()
    return TrainResult(trainer.losses.cpu(), seconds, steps, fingerprint)


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


def _fingerprint(
    model: ClickSAGE | LightGCN,
    data: ClickData,
    graph: ClickGraph,
    targets: ClickGraph,
    settings: TrainSettings,
) -> str:
    """What makes a run this run: a checkpoint of any other one must not be mistaken for it."""
    sums = [
        _checksum(part.by_user.col) + _checksum(part.by_user.rowptr) for part in (graph, targets)
    ]
    tables: list[int | str] = [data.known_hash]
    if isinstance(model, ClickSAGE) and not data.known_hash:
        tables += [
            _checksum(table.numeric.view(torch.int32)) + _checksum(table.categories)
            for table in (data.users, data.items)
            if table is not None
        ]
    facts = (type(model).__name__, model.settings, asdict(settings), sums, tables)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _checksum(values: Tensor) -> int:
    """A hash of a tensor of whole numbers, on its device."""
    flat, total = values.flatten(), 0
    for begin in range(0, flat.numel(), _CHUNK):
        piece = flat[begin : begin + _CHUNK].long()
        place = torch.arange(begin, begin + piece.numel(), device=piece.device)
        total += int(mix(mix(piece) + place).sum())
    return total
