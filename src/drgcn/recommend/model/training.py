"""Training of a click model from the first step or the last checkpoint to the end."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.kernels import Recorded
from drgcn.recommend.clicks.data import ClickData, click_weights
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.distributed.group import Exchange
from drgcn.recommend.model.embedding import freeze
from drgcn.recommend.model.encoder import ClickAttributes
from drgcn.recommend.model.lightgcn import AttributedLightGCN, LightGCN
from drgcn.recommend.model.objectives import LightGCNObjective, SAGEObjective, TrainSettings
from drgcn.recommend.model.sage import ClickSAGE
from drgcn.recommend.model.sampling import Positives
from drgcn.streams import mix, step_key, stream_key
from drgcn.training.checkpoint import load_checkpoint, save_checkpoint

_WINDOW = 1 << 22  # clicks whose users and items are looked up at once
Objective = Callable[[Tensor, Tensor, Tensor], Tensor]
_CHUNK = 1 << 24
_LOOK_EVERY = 1.0  # seconds between looks at the device
_LARGE = 1 << 30  # numbers in a layer's tables from which they are held in half precision


class ClickTrainer:
    """Adam on the loss of one batch after the other; all state in tensors changed in place.

    A step reads its batch from a window that was looked up for many steps, and takes every random
    number from a key of seed and step. Nothing in it waits for the device, and shapes never
    change: on CUDA the whole step, optimiser included, is recorded once as a graph and replayed.

    Args:
        model: What is trained.
        objective: The loss from users, items and key of a step.
        positives: Where batches come from.
        steps: Length of the run.
        lr: Learning rate.
        weight_decay: L2 coefficient for all parameters.
        exchange: The other ranks.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        objective: Objective,
        positives: Positives,
        steps: int,
        *,
        lr: float,
        weight_decay: float = 0.0,
        exchange: Exchange,
    ) -> None:
        self.model, self.objective, self.positives = model, objective, positives
        self.steps, self.exchange = steps, exchange
        device = positives.clicks.device
        cuda = device.type == "cuda"
        self.optimizer = torch.optim.Adam(
            model.parameters(),
            lr=lr,
            weight_decay=weight_decay,
            capturable=cuda,
            fused=cuda,
        )
        self.key = torch.tensor(stream_key(positives.seed, "dropout"), device=device)
        self.step = torch.zeros(1, dtype=torch.int64, device=device)
        self.losses = torch.zeros(steps, dtype=torch.float32, device=device)
        self.done = 0  # as `step`, but known without asking the device
        self.length = max(min(_WINDOW // positives.own_size, steps), 1)
        self.window_start = torch.full_like(self.step, -1)
        self.window = 0
        shape = (self.length, positives.own_size)
        self.users, self.items = (
            torch.zeros(shape, dtype=torch.int64, device=device) for _ in "ui"
        )
        self.filled = False
        record = cuda and exchange.size == 1
        self._run = Recorded(self._one_step) if record else self._one_step

    def run(self, steps: int) -> None:
        """Start so many more steps, without waiting for them."""
        for _ in range(steps):
            if not self.filled or self.done >= self.window + self.length:
                self._look_up(self.done)
            self._run()
            self.done += 1

    def state(self) -> dict[str, Tensor]:
        """All that a run needs to go on, by name."""
        found = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for part, value in self.optimizer.state.get(parameter, {}).items():
                found[f"adam.{part}.{name}"] = value
        return {**found, "step": self.step, "losses": self.losses[: self.done]}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a :meth:`state`."""
        device = self.step.device
        prefix = "model."
        self.model.load_state_dict(
            {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        )
        for name, parameter in self.model.named_parameters():
            parts = ("step", "exp_avg", "exp_avg_sq")
            saved = {part: state.get(f"adam.{part}.{name}") for part in parts}
            if saved["step"] is not None:
                # On CPU, Adam wants its counter there; on CUDA it is recorded with the rest.
                self.optimizer.state[parameter] = {
                    part: value.to(device) for part, value in saved.items() if value is not None
                }
        self.step.copy_(state["step"])
        self.done = int(state["step"])
        self.losses[: self.done] = state["losses"].to(device)
        self.filled = False

    def _look_up(self, step: int) -> None:
        users, items = self.positives.window(step, self.length)
        self.users.copy_(users)
        self.items.copy_(items)
        self.window_start.fill_(step)
        self.window, self.filled = step, True

    def _one_step(self) -> None:
        turn = self.step - self.window_start
        users = self.users.index_select(0, turn)[0]
        items = self.items.index_select(0, turn)[0]
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.objective(users, items, step_key(self.key, self.step)[0])
        loss.backward()
        self.exchange.average_gradients(self.model.parameters())
        self.optimizer.step()
        seen = self.exchange.mean(loss.detach())
        self.losses.index_copy_(0, self.step, seen.float()[None])
        self.step += 1


def set_up(
    model: ClickSAGE | LightGCN,
    data: ClickData,
    graph: ClickGraph,
    settings: TrainSettings,
    *,
    targets: ClickGraph | None = None,
    exchange: Exchange | None = None,
) -> tuple[ClickTrainer, ClickAttributes | None]:
    """A trainer before its first step, and the attributes that the model reads.

    The model is moved to where the clicks are, and put into training mode.

    Args:
        model: The model.
        data: Attributes.
        graph: Whose clicks make neighbours.
        settings: How to train.
        targets: The clicks to learn, on the same device. (default: those of the graph)
        exchange: The other ranks. (default: none)
    """
    targets, exchange = graph if targets is None else targets, exchange or Exchange()
    model.to(graph.device).train()
    weights = None
    if settings.half_life is not None:
        weights = click_weights(data, targets, settings.half_life).to(graph.device)
    positives = Positives(
        targets, settings.batch_size, settings.seed, settings.draw, exchange, weights
    )
    steps = settings.steps or positives.steps(settings.epochs)
    if isinstance(model, LightGCN):
        # Its L2 is part of the objective: on the rows of a batch alone, as its authors have it.
        known = None
        if isinstance(model, AttributedLightGCN):
            known = model.prepare_attributes(data, graph.device)
        objective = LightGCNObjective(model, graph, targets, settings, exchange, known, weights)
        trainer = ClickTrainer(
            model, objective, positives, steps, lr=settings.lr, exchange=exchange
        )
        return trainer, known
    attributes = model.prepare(data, graph.device)
    trainer = ClickTrainer(
        model,
        SAGEObjective(model, attributes, graph, targets, settings, exchange, weights),
        positives,
        steps,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        exchange=exchange,
    )
    return trainer, attributes


def run_fingerprint(
    model: ClickSAGE | LightGCN,
    data: ClickData,
    graph: ClickGraph,
    targets: ClickGraph,
    settings: TrainSettings,
    origin: str = "",
) -> str:
    """A hash of model, settings, clicks and attributes; of weights that of the origin alone."""
    sums = [
        _checksum(part.by_user.col) + _checksum(part.by_user.rowptr) for part in (graph, targets)
    ]
    tables: list[int | str] = [data.known_hash]
    if isinstance(model, ClickSAGE | AttributedLightGCN) and not data.known_hash:
        tables += [
            _checksum(table.numeric.view(torch.int32)) + _checksum(table.categories)
            for table in (data.users, data.items)
            if table is not None
        ]
    own = asdict(settings)
    if settings.half_life is None:  # as before there was one
        del own["half_life"]
    facts = (type(model).__name__, model.settings, own, sums, tables)
    return hashlib.sha256((repr(facts) + origin).encode()).hexdigest()


def _checksum(values: Tensor) -> int:
    """A hash of a tensor of whole numbers, on its device."""
    flat, total = values.flatten(), 0
    for begin in range(0, flat.numel(), _CHUNK):
        piece = flat[begin : begin + _CHUNK].long()
        place = torch.arange(begin, begin + piece.numel(), device=piece.device)
        total += int(mix(mix(piece) + place).sum())
    return total


@dataclass(frozen=True)
class TrainProgress:
    """Progress of a run.

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
    """Losses and times of a finished run.

    Attributes:
        losses: Loss of every step.
        seconds: Seconds it took, over all attempts.
        steps: Steps done.
        fingerprint: Hash of model, settings and data.
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
    origin: str = "",
) -> TrainResult:
    """Train a model in place and show it the whole graph at the end.

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
        origin: Hash of the weights that the model begins with, if they are not fresh: a
            checkpoint of other ones is refused.

    Raises:
        InputError: If the loss is not finite at some step.
    """
    settings, exchange = settings or TrainSettings(), exchange or Exchange()
    device = torch.device(device)
    graph = (data.graph if graph is None else graph).to(device)
    targets = graph if targets is None else targets.to(device)
    trainer, attributes = set_up(model, data, graph, settings, targets=targets, exchange=exchange)
    fingerprint = run_fingerprint(model, data, graph, targets, settings, origin)
    path = None if checkpoint is None else Path(checkpoint)
    spent = 0.0
    if path is not None and (found := load_checkpoint(path, fingerprint)) is not None:
        state, spent = found
        trainer.restore(state)
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
    """Run to the end; return the seconds it took, over all attempts."""
    start = saved = looked = time.perf_counter()
    first = reported = trainer.done
    stride = 1
    _expect_finite(trainer)
    while trainer.done < trainer.steps:
        trainer.run(min(stride, trainer.steps - trainer.done))
        if trainer.step.is_cuda:
            torch.cuda.synchronize(trainer.step.device)
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


def _expect_finite(trainer: ClickTrainer) -> None:
    """Refuse to go on, or to save, after a loss that no later step can mend."""
    bad = (~trainer.losses[: trainer.done].isfinite()).nonzero()
    if len(bad):
        raise InputError(
            f"Expected a finite loss; found {float(trainer.losses[bad[0, 0]])} at step "
            f"{int(bad[0, 0]) + 1} of {trainer.steps}. Lower the learning rate (--lr)."
        )
