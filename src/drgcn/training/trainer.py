"""Training of all seeds at once: steps, epochs, the loop over them and its checkpoints."""

from __future__ import annotations

import inspect
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from drgcn.kernels import Recorded
from drgcn.streams import step_key, stream_key
from drgcn.training.checkpoint import load_checkpoint, save_checkpoint
from drgcn.training.grid import Lane, LaneSettings
from drgcn.training.inputs import MakeOptimizer
from drgcn.training.stack import ModelStack
from drgcn.training.stopping import Schedule, StoppingRule, learning_rates
from drgcn.training.task import Task, l2_penalty

CURVES: Final = ("train_loss", "val_loss", "val_accuracy")
TEST_CURVE: Final = "test_accuracy"
# Seconds between two reports of progress.
_REPORT_EVERY: Final = 0.2
# Epochs between two reads of a CUDA device, a fraction of a second.
_STRIDE: Final = 20
# Least time that a pass may still take for its stopped lanes to leave it, since the others are
# recorded anew then.
_SECONDS_TO_SAVE: Final = 5.0


class Trainer:
    """The state of one pass over several seeds, all of it in tensors that are changed in place.

    That makes each phase of an epoch one CUDA graph, and a checkpoint one dictionary of tensors.

    Args:
        stack: The models.
        task: The task that they learn.
        rule: Decides when to keep weights and when to stop.
        epochs: The budget.
        optimizer: Makes an optimiser that works elementwise, as most of torch's do.
        lanes: Settings of each seed of the stack; one for all of them.
        schedule: Changes the learning rate; constant if not given.
        test_curve: Score the test nodes after every epoch too. Nothing depends on it.
    """

    def __init__(
        self,
        stack: ModelStack,
        task: Task,
        rule: StoppingRule,
        *,
        epochs: int,
        optimizer: MakeOptimizer,
        lanes: LaneSettings | Sequence[LaneSettings],
        schedule: Schedule | None = None,
        test_curve: bool = False,
    ) -> None:
        self.stack, self.task, self.rule = stack, task, rule
        self.curve_names = (*CURVES, TEST_CURVE) if test_curve else CURVES
        self.make_optimizer, self.schedule = optimizer, schedule
        lanes = [lanes] * len(stack.seeds) if isinstance(lanes, LaneSettings) else list(lanes)
        self.lanes = tuple(lanes)
        seeds, device = len(stack.seeds), task.val.labels.device
        regularized = stack.regularized_names()
        self.regularized = [p for name, p in stack.parameters.items() if name in regularized]
        self.own_penalty = hasattr(stack.template, "penalty")
        self.weight_decay = _one_or_all([lane.weight_decay for lane in lanes], device)
        self.smoothing = _one_or_all([lane.label_smoothing for lane in lanes], device)
        self.rates: list[Tensor | None] = []  # of every group of the optimiser
        # Tensors that are stepped by name: the parameter and the lanes they are views of.
        self.stepped: dict[str, tuple[str, slice, Tensor]] = {}
        groups = self._parameter_groups(regularized, epochs, device)
        # On CUDA: state on the device, so that a step can be recorded, and few kernels.
        known = inspect.signature(optimizer).parameters if device.type == "cuda" else {}
        options: dict[str, Any] = {name: True for name in ("capturable", "fused") if name in known}
        self.optimizer = optimizer(groups, lr=groups[0]["lr"], **options)

        def keys(stream: str) -> Tensor:
            return torch.tensor([stream_key(seed, stream) for seed in stack.seeds], device=device)

        self.draw_keys, self.batch_keys = keys("dropout"), keys("batches")
        self.epoch = torch.zeros((), dtype=torch.int64, device=device)
        self.step = torch.zeros((), dtype=torch.int64, device=device)
        self.loss_sum = torch.zeros(seeds, device=device)
        batches = task.batches
        shape = (0,) if batches is None else (batches.steps, seeds, batches.used_per_step)
        self.order = torch.zeros(shape, dtype=torch.int64, device=device)
        self.active = torch.ones(seeds, dtype=torch.bool, device=device)
        self.best_epoch = torch.zeros(seeds, dtype=torch.int64, device=device)
        self.last_epoch = torch.zeros(seeds, dtype=torch.int64, device=device)
        self.best = {name: value.detach().clone() for name, value in stack.state().items()}
        shape = (epochs, len(self.curve_names), seeds)
        self.curves = torch.zeros(shape, dtype=torch.float32, device=device)
        self.rule_state = rule.start(seeds, device)

    def _parameter_groups(
        self, regularized: set[str], epochs: int, device: torch.device
    ) -> list[dict[str, Any]]:
        """Return groups of an optimiser, and note what each of them steps at which rates: views
        of the lanes in a row that share learning rate and L2, those under L2 and the others."""
        groups: list[dict[str, Any]] = []
        for lr, weight_decay, start, stop in _runs_of_equals(self.lanes):
            # A learning rate that changes is a tensor, so that recorded epochs see it change.
            schedule = self.schedule
            rates = None if schedule is None else learning_rates(schedule, lr, epochs).to(device)
            whole = stop - start == len(self.lanes)
            for decayed in (True, False):
                views = {
                    name: _view(parameter, start, stop)
                    for name, parameter in self.stack.parameters.items()
                    if (name in regularized) == decayed
                }
                if not views:
                    continue
                for name, view in views.items():
                    label = name if whole else f"{name}[{start}:{stop}]"
                    self.stepped[label] = (name, slice(start, stop), view)
                decay = weight_decay if decayed and not self.own_penalty else 0.0
                rate = lr if rates is None else torch.tensor(lr, device=device)
                groups.append({"params": [*views.values()], "weight_decay": decay, "lr": rate})
                self.rates.append(rates)
        return groups

    def record_passes(self) -> None:
        """Record all passes of a model that are recorded as programs before they are run."""
        for part in self.task.train:
            self.stack.record(part.inputs, training=True)
        for part in (self.task.val, self.task.test):
            self.stack.record(part.inputs, training=False)

    def run_epoch(self) -> None:
        """Train every seed for one epoch, validate, and keep or stop as the rule says."""
        for phase, times in self.phases:
            for _ in range(times):
                phase()

    @property
    def phases(self) -> tuple[tuple[Callable[[], None], int], ...]:
        """Phases of an epoch, in order, each with the number of times it is run."""
        if self.task.batches is not None:
            steps = (self.train_on_batch, self.task.batches.steps)
        else:
            steps = (self.train_on_parts, 1)
        return (self.begin_epoch, 1), steps, (self.end_epoch, 1)

    def begin_epoch(self) -> None:
        """Count the epoch, set its learning rate, and shuffle its batches."""
        self.epoch += 1
        self.loss_sum.zero_()
        for group, rates in zip(self.optimizer.param_groups, self.rates, strict=True):
            if rates is not None:
                group["lr"].copy_(rates.index_select(0, self.epoch[None] - 1)[0])
        if self.task.batches is not None:
            self.order.copy_(self.task.batches.order(self.batch_keys, self.epoch))

    def train_on_parts(self) -> None:
        """Make one step for every training part."""
        for part in self.task.train:
            scores = self.stack(part.inputs, self._next_keys())
            loss = self._smoothed_loss(part.scored(scores), part.labels)
            self._descend(loss, self.stack.penalty(self.weight_decay))

    def train_on_batch(self) -> None:
        """Make one step on the next batch."""
        (part,) = self.task.train
        number = self.step % len(self.order)
        places = self.order.index_select(0, number[None])[0]
        scores, extra = self.stack.sampled(part.nodes[places], part.inputs, self._next_keys())
        loss = self._smoothed_loss(scores, part.labels[places])
        penalty = self.stack.penalty(self.weight_decay)
        self._descend(loss, extra if penalty is None else extra + penalty)

    def end_epoch(self) -> None:
        """Score the validation nodes, and keep or stop as the rule says."""
        batches = self.task.batches
        train_loss = self.loss_sum / (len(self.task.train) if batches is None else batches.steps)
        val_loss, val_accuracy, *test_accuracy = self._validate()
        higher_is_better = self.task.objective.higher_is_better
        watched = val_accuracy if higher_is_better else -val_accuracy
        keep, stop = self.rule.update(self.rule_state, self.epoch, val_loss, watched)
        keep = keep & self.active
        self._keep_weights(keep)
        self.best_epoch.copy_(torch.where(keep, self.epoch, self.best_epoch))
        self.last_epoch.copy_(torch.where(self.active, self.epoch, self.last_epoch))
        self.active.logical_and_(~stop)
        point = torch.stack([train_loss, val_loss, val_accuracy, *test_accuracy]).float()
        self.curves.index_copy_(0, self.epoch[None] - 1, point[None])

    def curve(self, name: str) -> Tensor:
        """Return one of the curves ``[epochs, seeds]``; zero after the present epoch."""
        return self.curves[:, self.curve_names.index(name)]

    def curves_to_stop(self, name: str) -> list[Tensor]:
        """Return one of the curves of each seed, up to its own stop: afterwards it is trained on
        for as long as others are."""
        lanes = zip(self.curve(name).T.cpu(), self.last_epoch.tolist(), strict=True)
        return [curve[:stop].clone() for curve, stop in lanes]

    def _keep_weights(self, keep: Tensor) -> None:
        if not keep.is_cuda and not bool(keep.any()):
            return  # on a device the check would wait for it
        for name, value in self.stack.state().items():
            mask = keep.view(-1, *[1] * (value.dim() - 1))
            torch.where(mask, value.detach(), self.best[name], out=self.best[name])

    def _smoothed_loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        loss = self.task.objective.loss(scores, labels)
        if not isinstance(self.smoothing, Tensor) and self.smoothing == 0:
            return loss
        uniform = -scores.log_softmax(-1).mean((1, 2))
        return (1 - self.smoothing) * loss + self.smoothing * uniform

    def _next_keys(self) -> Tensor:
        """Return the keys of the next step's random numbers."""
        self.step += 1
        return step_key(self.draw_keys, self.step)

    def _descend(self, loss: Tensor, penalty: Tensor | None) -> None:
        # Seeds share no parameter, so the gradient of the sum is the gradient of each.
        total = loss.sum() if penalty is None else (loss + penalty).sum()
        trained = {name: p for name, p in self.stack.parameters.items() if p.requires_grad}
        found = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
        gradients = dict(zip(trained, found, strict=True))
        for name, lanes, view in self.stepped.values():
            gradient = gradients.get(name)
            # Fused optimisers want gradients laid out as the parameters are.
            view.grad = None if gradient is None else gradient[lanes].contiguous()
        self.optimizer.step()
        self.loss_sum += loss.detach()

    @torch.no_grad()
    def _validate(self) -> tuple[Tensor, ...]:
        """Return loss and accuracy of the validation nodes, and what is scored beside them."""
        part, test, objective = self.task.val, self.task.test, self.task.objective
        everywhere = self.stack(part.inputs)
        scores = part.scored(everywhere)
        loss = objective.loss(scores, part.labels)
        if self.rule.penalized_loss:
            penalty = self.stack.penalty(self.weight_decay)
            if penalty is None:
                loss = loss + l2_penalty(self.regularized, self.weight_decay)
            else:
                loss = loss + penalty
        found = loss, objective.score(scores, part.labels)
        if TEST_CURVE not in self.curve_names:
            return found
        if test.inputs is not part.inputs:
            everywhere = self.stack(test.inputs)
        return *found, objective.score(test.scored(everywhere), test.labels)


def _one_or_all(values: Sequence[float], device: torch.device) -> float | Tensor:
    """Return the number that all lanes have, or else all of theirs ``[lanes]``."""
    return values[0] if len(set(values)) == 1 else torch.tensor(values, device=device)


def _runs_of_equals(lanes: Sequence[LaneSettings]) -> Iterator[tuple[float, float, int, int]]:
    """Yield learning rate, L2 coefficient, start and stop of lanes in a row that share both."""
    start = 0
    for (lr, weight_decay), run in groupby(lanes, lambda lane: (lane.lr, lane.weight_decay)):
        stop = start + sum(1 for _ in run)
        yield lr, weight_decay, start, stop
        start = stop


def _view(parameter: Tensor, start: int, stop: int) -> Tensor:
    """Return some lanes of a parameter, to be stepped by themselves; all of them as they are."""
    return parameter if stop - start == len(parameter) else parameter.detach()[start:stop]


def state_tensors(trainer: Trainer) -> dict[str, Tensor]:
    """Return the state between two epochs, by name; of the optimiser, copies."""
    found = {
        "epoch": trainer.epoch,
        "step": trainer.step,
        "active": trainer.active,
        "best_epoch": trainer.best_epoch,
        "last_epoch": trainer.last_epoch,
        "curves": trainer.curves,
    }
    for prefix, group in (
        ("now", trainer.stack.state()),
        ("best", trainer.best),
        ("rule", trainer.rule_state),
    ):
        found |= {f"{prefix}/{name}": value for name, value in group.items()}
    pieces: dict[str, list[Tensor]] = {}
    for name, _, view in trainer.stepped.values():
        for key, value in trainer.optimizer.state.get(view, {}).items():
            pieces.setdefault(f"optimizer/{key}/{name}", []).append(value)
    # Lanes are stepped in their order; what an optimiser counts is the same for all of them.
    found |= {name: torch.cat(p) if p[0].dim() else p[0] for name, p in pieces.items()}
    return {name: value.detach() for name, value in found.items()}


@torch.no_grad()
def restore(trainer: Trainer, tensors: dict[str, Tensor]) -> None:
    """Restore a state that :func:`state_tensors` returned."""
    own = state_tensors(trainer)
    for name, value in tensors.items():
        if not name.startswith("optimizer/"):
            own[name].copy_(value)
            continue
        _, key, parameter = name.split("/", 2)
        for of, lanes, view in trainer.stepped.values():
            if of == parameter:
                state = trainer.optimizer.state[view]
                state[key] = (value[lanes] if value.dim() else value).clone()


def some_lanes(trainer: Trainer, lanes: Tensor) -> Trainer:
    """Return a trainer that goes on with some of the lanes."""
    part = Trainer(
        trainer.stack.of_lanes(lanes),
        trainer.task.of_lanes(lanes),
        trainer.rule,
        epochs=len(trainer.curves),
        optimizer=trainer.make_optimizer,
        lanes=[trainer.lanes[lane] for lane in lanes.tolist()],
        schedule=trainer.schedule,
    )
    state = state_tensors(trainer)
    for name, axis in _lane_axes(trainer).items():
        state[name] = state[name] if axis is None else state[name].index_select(axis, lanes)
    restore(part, state)
    return part


def take_back(trainer: Trainer, part: Trainer, lanes: Tensor) -> None:
    """Bring the state of some lanes home to the trainer of all."""
    axes, state = _lane_axes(trainer), state_tensors(trainer)
    for name, value in state_tensors(part).items():
        axis = axes[name]
        state[name] = value if axis is None else state[name].index_copy(axis, lanes, value)
    restore(trainer, state)


def _lane_axes(trainer: Trainer) -> dict[str, int | None]:
    """Return the axis of lanes in each tensor of the state; ``None`` for what they share."""
    two, three = (trainer.rule.start(lanes, trainer.epoch.device) for lanes in (2, 3))
    axes: dict[str, int | None] = {}
    for name, value in state_tensors(trainer).items():
        axes[name] = 0 if value.dim() else None
        if name.startswith("rule/"):
            a, b = two[name[5:]].shape, three[name[5:]].shape
            axes[name] = next((axis for axis in range(len(a)) if a[axis] != b[axis]), None)
    return axes | {"curves": 2}


@dataclass(frozen=True)
class Progress:
    """Progress of a pass; loss and accuracy are means over the seeds still training.

    ``seeds_at_once`` of all ``seeds`` are trained as one; the others wait, on a GPU for lack of
    memory, or on CPU are trained beside them on other cores.
    """

    epochs_done: int
    epochs_in_all: int
    train_loss: float
    val_accuracy: float
    seeds_at_once: int
    seeds: int


class EpochLoop:
    """Training of one block of seeds after another, or of several in threads of their own.

    Args:
        epochs: Budget of each block.
        seeds: Number of seeds asked for.
        progress: Called a few times a second.
        checkpoint: Path to save the state at, one file per block.
        checkpoint_every: Seconds between two saves.
        usual: Settings of blocks whose checkpoint is named after their seeds alone.
    """

    def __init__(
        self,
        epochs: int,
        seeds: int,
        progress: Callable[[Progress], None] | None = None,
        checkpoint: Path | str | None = None,
        checkpoint_every: float = 10.0,
        usual: LaneSettings | None = None,
    ) -> None:
        self.usual = usual or LaneSettings()
        self.epochs, self.seeds = epochs, seeds
        self.progress = progress
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.checkpoint_every = checkpoint_every
        self.finished = 0
        self.reported = 0.0
        self.begin_pass([], 0)
        self.stop = threading.Event()  # set for blocks to end where they are
        self._begun: dict[int, int] = {}  # epochs of unfinished blocks by their threads
        self._lock = threading.Lock()

    def begin_pass(
        self,
        asked: Iterable[Lane],
        blocks: int,
        *,
        at_once: int = 1,
        label: str = "",
        fingerprint: str = "",
    ) -> None:
        """Turn to the blocks of another pass.

        Args:
            asked: Lanes that were asked for; the others only fill a block.
            blocks: Number of blocks that are still to be trained.
            at_once: Blocks that share the machine.
            label: Name of a pass of a grid, which may share all settings of lanes with another.
            fingerprint: Fingerprint of the run; checkpoints of another are refused.
        """
        self.asked = {(lane.seed, lane.trained) for lane in asked}
        self.blocks, self.at_once = self.finished + blocks, at_once
        self.label, self.fingerprint = label, fingerprint

    def run(self, trainer: Trainer) -> float:
        """Train one block to its end; return its share of the seconds, over all attempts."""
        path = self._path(trainer)
        found = load_checkpoint(path, self.fingerprint) if path and path.exists() else None
        spent = 0.0
        if found is not None:
            tensors, spent = found
            restore(trainer, tensors)
        start = time.perf_counter()
        self._run_epochs(trainer, path, spent)
        if trainer.epoch.is_cuda:
            torch.cuda.synchronize()
        seconds = spent + (time.perf_counter() - start) / self.at_once
        # States are saved only between epochs: resumed from the middle of one, training would
        # not come to the same numbers. So an interruption goes back to the last checkpoint.
        if path is not None:
            self._save(path, trainer, seconds)
        with self._lock:
            self._begun.pop(threading.get_ident(), None)
            self.finished += 1
        return seconds

    def _run_epochs(self, trainer: Trainer, path: Path | None, spent: float) -> None:
        working, lanes, runner = trainer, None, EpochRunner(trainer)
        start = saved = time.perf_counter()
        begun = epoch = int(trainer.epoch)
        while epoch < self.epochs and bool(working.active.any()):
            if self.stop.is_set():
                raise CancelledError
            # Reading a result waits for the device, so several epochs are run between reads.
            epoch += runner.run(min(runner.stride, self.epochs - epoch))
            now = time.perf_counter()
            with self._lock:
                self._report(working, epoch, now)
            due = path is not None and now - saved > self.checkpoint_every
            left = (now - start) / (epoch - begun) * (self.epochs - epoch)
            leaving = should_leave(working.active, left)
            if lanes is not None and (due or leaving):
                take_back(trainer, working, lanes)
            if path is not None and due:
                self._save(path, trainer, spent + (now - start) / self.at_once)
                saved = now
            if leaving:
                lanes = trainer.active.nonzero().flatten()
                working = some_lanes(trainer, lanes)
                runner = EpochRunner(working)
        if lanes is not None:
            take_back(trainer, working, lanes)

    def _save(self, path: Path, trainer: Trainer, seconds: float) -> None:
        lanes = zip(trainer.stack.seeds, trainer.lanes, strict=True)
        held = [(lane[0], asdict(lane[1])) for lane in lanes if lane in self.asked]
        save_checkpoint(path, state_tensors(trainer), seconds, self.fingerprint, held)

    def _path(self, trainer: Trainer) -> Path | None:
        if self.checkpoint is None:
            return None
        lanes: tuple[Any, ...] = trainer.stack.seeds
        if self.label or set(trainer.lanes) != {self.usual}:
            lanes = (self.label, *zip(lanes, trainer.lanes, strict=True))
        seeds = zlib.crc32(repr(lanes).encode())  # a block's lanes, in order
        return self.checkpoint.with_name(f"{self.checkpoint.name}.{seeds:08x}")

    def _report(self, trainer: Trainer, epoch: int, now: float) -> None:
        going_on = bool(trainer.active.any())
        last = epoch == self.epochs or not going_on
        self._begun[threading.get_ident()] = epoch
        if self.progress is None or (now - self.reported < _REPORT_EVERY and not last):
            return
        self.reported = now
        active = trainer.active if going_on else ~trainer.active
        self.progress(
            Progress(
                epochs_done=self.finished * self.epochs + sum(self._begun.values()),
                epochs_in_all=self.blocks * self.epochs,
                train_loss=float(trainer.curve("train_loss")[epoch - 1][active].mean()),
                val_accuracy=float(trainer.curve("val_accuracy")[epoch - 1][active].mean()),
                seeds_at_once=min(len(trainer.stack.seeds), self.seeds),
                seeds=self.seeds,
            )
        )


def should_leave(active: Tensor, seconds_left: float) -> bool:
    """Return whether lanes that have stopped should leave the pass, so that the others are faster.

    On CPU they stay: a lane's numbers depend on its place to the last bit.
    """
    if not active.is_cuda or seconds_left < _SECONDS_TO_SAVE:
        return False
    return 0 < int(active.sum()) <= len(active) // 2


class EpochRunner:
    """Runner of epochs that records them as CUDA graphs where it can.

    A small epoch is hundreds of tiny kernels, and starting them one by one takes longer than
    running them. On CUDA every phase of an epoch is therefore recorded and replayed. Without
    batches the whole epoch is one phase.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        on_cuda = trainer.epoch.is_cuda and trainer.stack.running.way != "looped"
        self.stride = _STRIDE if on_cuda and trainer.task.batches is None else 1
        self.phases = trainer.phases
        if on_cuda and trainer.task.batches is None:
            self.phases = ((Recorded(trainer.run_epoch), 1),)
        elif on_cuda:
            self.phases = tuple((Recorded(phase), times) for phase, times in trainer.phases)

    def run(self, count: int) -> int:
        """Run ``count`` epochs; return their number."""
        for _ in range(count):
            for phase, times in self.phases:
                for _ in range(times):
                    phase()
        return count
