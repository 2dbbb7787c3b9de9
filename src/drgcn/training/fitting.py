"""``fit``: train many seeds in one pass, on whole graphs or on samples of them."""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch_geometric.data import Data

from drgcn._processes import one_thread_each, side_by_side
from drgcn.errors import InputError, NoResultError
from drgcn.training.calling import (
    Prepare,
    default_prepare,
    gate_observer,
    link_maker,
    new_model,
    training_prepare,
    try_model,
)
from drgcn.training.checkpoint import fingerprint_of
from drgcn.training.grid import (
    CPU_LANES,
    Grid,
    GridPass,
    Lane,
    LaneSettings,
    expect_arguments,
    lane_blocks,
    passes_of,
    seeds_that_fit,
)
from drgcn.training.inputs import (
    MakeOptimizer,
    checked_device,
    checked_numbers,
    checked_seeds,
    expect_elementwise,
    name_of,
)
from drgcn.training.objectives import LossChoice, MetricChoice
from drgcn.training.randomness import SeededRandomness
from drgcn.training.result import FitResult
from drgcn.training.stack import ModelStack, Running, choose_way
from drgcn.training.stopping import BestValidation, Schedule, StoppingRule, learning_rates
from drgcn.training.task import (
    Inductive,
    Task,
    TaskData,
    graphs_in,
    is_graphs,
    is_links,
    seen_in_training,
)
from drgcn.training.trainer import TEST_CURVE, EpochLoop, Progress, Trainer

# Most nodes for which operations are too short for threads to share them on CPU.
_ONE_THREAD: Final = 2**14
# Fewest epochs for which a pass is recorded as a program, which takes a second.
_WORTH_TRACING: Final = 20
_log = logging.getLogger(__name__)


def fit(
    make_model: Callable[..., torch.nn.Module],
    data: TaskData,
    seeds: Iterable[int],
    *,
    grid: Grid | None = None,
    loss: LossChoice = None,
    metric: MetricChoice = None,
    epochs: int = 800,
    rule: StoppingRule | None = None,
    optimizer: MakeOptimizer = torch.optim.Adam,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    schedule: Schedule | None = None,
    split: int | None = None,
    prepare: Prepare | None = None,
    graphs_per_step: int | None = None,
    inductive: Inductive | None = None,
    batch_size: int | None = None,
    device: torch.device | str = "cpu",
    seeds_at_once: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: float = 10.0,
    test_curve: bool = False,
) -> FitResult:
    """Train one model per seed, many at once, and test each at its best epoch.

    Works for any full-batch module, ours or PyG's, and for models that sample (FastGCN, ASGCN,
    GraphSAGE) with a ``batch_size``. A seed's numbers do not depend on the seeds asked for beside
    it: initialisation, dropout, batches and samples have streams of their own. Calls from several
    threads wait for each other.

    Args:
        make_model: Builds one model. A model may offer ``prepare(data)``, which returns the
            arguments of its ``forward``, ``regularized_parameters()``, or, as a regulariser of
            its own, ``penalty(weight_decay)``. One that samples offers
            ``prepare_training(data)`` and ``sampled(batch, *inputs)``, which returns scores and
            what is added to the loss.
        data: A graph with ``y`` and ``train_mask``, ``val_mask`` and ``test_mask``; or several,
            with ``graph`` [nodes] as :func:`drgcn.data.unite` joins them, for inductive training.
            Masks are boolean, of one column a split, or lists of node numbers. ``y`` of whole
            numbers [nodes] holds classes, of zeros and ones [nodes, labels] several labels per
            node, and of other numbers the values of a regression. Three graphs of PyG's
            ``RandomLinkSplit`` are a task on links: the model encodes nodes, pairs are scored by
            inner products or its ``decode(z, edge_label_index)``, and training pairs without
            edges are drawn at every step if there are none. Three lists of graphs, to train,
            validate and test, are a task on graphs with a ``y`` each; the model takes ``batch``.
        seeds: The seeds, from 0.
        grid: Settings to train all seeds with: lists of values by name, of which all combinations
            are taken, or a list of settings. ``lr``, ``weight_decay``, ``dropout`` (in place of
            all rates of the model but zero), ``label_smoothing``, ``split`` and ``exponent`` (of
            gates measured on training data) are trained in one pass on CUDA; anything else, which
            is handed to ``make_model`` by name, in passes of their own.
        loss: ``"cross_entropy"`` for classes; ``"bce"`` for zeros and ones; ``"mse"``, ``"mae"``
            or ``"huber"`` for a regression, also of whole numbers; or a function of scores
            ``[nodes, outputs]`` and labels, such as ``partial(F.cross_entropy,
            label_smoothing=0.1)``. (default: the first for labels of that form)
        metric: What the rule watches and the test reports: ``"accuracy"``, ``"micro-F1"``,
            ``"macro-F1"``, ``"ROC-AUC"``, ``"average precision"``; ``"R2"``, ``"MAE"``,
            ``"MSE"``, ``"RMSE"``; for links also ``"MRR"`` and ``"Hits@20"``; a function of scores
            and labels of which more is better; or a :class:`~drgcn.training.Metric`. (default:
            accuracy, micro-F1 or R2; for links ROC-AUC)
        epochs: Budget of epochs.
        rule: Chooses the epoch to test and when to stop. (default: :class:`BestValidation`)
        optimizer: Class of an elementwise optimiser, or a partial of one, such as
            ``partial(torch.optim.SGD, momentum=0.9)``.
        lr: Learning rate.
        weight_decay: L2 coefficient, on ``regularized_parameters()`` or else on everything.
        schedule: Changes the learning rate: :class:`StepwiseDecay`, or one of torch's schedulers
            as a partial, such as ``partial(CosineAnnealingLR, T_max=200)``, stepped once an epoch.
            (default: it is constant)
        split: Column of masks ``[nodes, splits]``.
        prepare: Makes the arguments of ``forward`` from a graph. (default: the model's own; else
            features and edges, and what the graph has under the names of further arguments, such
            as ``edge_weight``)
        graphs_per_step: Training graphs in each step of an epoch, in order, if there are several.
            (default: all)
        inductive: ``"train"``: train on the training nodes and the edges between them, and
            evaluate on the whole graph; ``"apart"``: evaluate on the training nodes and those
            looked at. (default: the whole graph is seen in training)
        batch_size: Training nodes in each step, for models that sample. (default: all)
        device: Device to train on. On CUDA an epoch is replayed as one graph.
        seeds_at_once: Most seeds in one pass on CUDA. (default: as many as free
            memory holds, found by trying)
        progress: Called a few times a second with a :class:`Progress`; on CPU by any of the
            threads that train, one at a time.
        checkpoint: Path at which the state is saved, one file per block of seeds, so that the
            same call resumes after a kill. Store the results, then call
            :func:`clear_checkpoint`.
        checkpoint_every: Seconds between checkpoints.
        test_curve: Add ``test_accuracy`` to the curves; numbers chosen by it are no results.
    """
    epochs, lr, weight_decay, split, seeds_at_once = checked_numbers(
        epochs=epochs,
        lr=lr,
        weight_decay=weight_decay,
        split=split,
        seeds_at_once=seeds_at_once,
        progress=progress,
        checkpoint=checkpoint,
        rule=rule,
    )
    seeds = checked_seeds(seeds)
    device = checked_device(device)
    if schedule is not None:
        learning_rates(schedule, lr, epochs)  # one that cannot be used is refused before any work
    usual = LaneSettings(lr, weight_decay, split=split)
    # Elsewhere another split is another graph, or another set of batches.
    one_graph = isinstance(data, Data) and data.get("graph") is None
    together = one_graph and inductive is None and batch_size is None
    passes = passes_of(grid, usual, splits_together=together)
    expect_arguments(make_model, passes)
    decay = max(lane.weight_decay for one in passes for lane, _ in one.settings)
    expect_elementwise(optimizer, lr, decay)
    training = _Training(
        loss=loss,
        metric=metric,
        epochs=epochs,
        rule=rule or BestValidation(),
        optimizer=optimizer,
        schedule=schedule,
        prepare=prepare,
        graphs_per_step=graphs_per_step,
        inductive=inductive,
        batch_size=batch_size,
        device=device,
        seeds_at_once=seeds_at_once,
        test_curve=test_curve,
    )
    loop = EpochLoop(
        epochs,
        len(seeds) * sum(len(one.settings) for one in passes),
        progress=progress,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        usual=usual,
    )
    results = []
    with _one_call_at_a_time():
        for waiting, one in zip(reversed(range(len(passes))), passes, strict=True):
            make = functools.partial(make_model, **one.arguments) if one.arguments else make_model
            results.append(_run_pass(make, data, seeds, one, training, loop, waiting))
    return FitResult.concatenate(results)


_CALL: Final = threading.Lock()
_IN_CALL: Final = ContextVar("in_call", default=False)


@contextlib.contextmanager
def _one_call_at_a_time() -> Iterator[None]:
    """Let calls from several threads wait for each other: models are built from the generators of
    the process, and programs are recorded in it. A call inside of another goes on at once."""
    if _IN_CALL.get():
        yield
        return
    with _CALL:
        before = _IN_CALL.set(True)
        try:
            yield
        finally:
            _IN_CALL.reset(before)


@dataclass(frozen=True)
class _Training:
    """Arguments of :func:`fit` that all passes share."""

    loss: LossChoice
    metric: MetricChoice
    epochs: int
    rule: StoppingRule
    optimizer: MakeOptimizer
    schedule: Schedule | None
    prepare: Prepare | None
    graphs_per_step: int | None
    inductive: Inductive | None
    batch_size: int | None
    device: torch.device
    seeds_at_once: int | None
    test_curve: bool

    def settings(self, usual: LaneSettings) -> tuple[Any, ...]:
        """Return all that a checkpoint depends on, beside data, model and settings of lanes."""
        rates: tuple[float, ...] = ()
        if self.schedule is not None:
            rates = tuple(learning_rates(self.schedule, usual.lr, self.epochs).tolist())
        training = (self.epochs, self.rule, name_of(self.optimizer), usual.lr, usual.weight_decay)
        curves = (TEST_CURVE,) if self.test_curve else ()
        return (*training, rates, self.graphs_per_step, self.inductive, self.batch_size, *curves)


@dataclass(frozen=True)
class _Pass:
    """A pass made ready: what all of its lanes share.

    Attributes:
        training: Arguments of :func:`fit`.
        grid_pass: Settings of the lanes.
        model: One model, to look at.
        maker: Makes a function that builds models, for a split and the exponent of gates.
        prepare: Makes the arguments of ``forward``.
        tasks: The task on each split.
        judged: Forms of loss and metric on each of them.
        running: The way in which models are run.
    """

    training: _Training
    grid_pass: GridPass
    model: torch.nn.Module
    maker: Callable[[int | None, float | None], Callable[[], torch.nn.Module]]
    prepare: Prepare
    tasks: dict[int | None, Task]
    judged: list[Any]
    running: Running

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Arguments of a model, the same on every split."""
        return next(iter(self.tasks.values())).val.inputs

    @property
    def on_one_thread(self) -> bool:
        """True if operations are too short for threads to share them."""
        return _is_small(next(iter(self.tasks.values()))) and self.running.way != "looped"

    def trainer(self, block: Sequence[Lane]) -> Trainer:
        """Return a trainer of new networks."""
        training, lanes = self.training, [lane.trained for lane in block]
        rates = [lane.dropout for lane in lanes if lane.dropout is not None]
        makers = [self.maker(lane.split, lane.exponent) for lane in lanes]
        seeds = [lane.seed for lane in block]
        return Trainer(
            ModelStack(makers, seeds, self.inputs, training.device, self.running, rates or None),
            Task.joined([self.tasks[lane.split] for lane in lanes]),
            training.rule,
            epochs=training.epochs,
            optimizer=training.optimizer,
            lanes=lanes,
            schedule=training.schedule,
            test_curve=training.test_curve,
        )

    def blocks(self, lanes: Sequence[Lane]) -> list[list[Lane]]:
        """Group lanes into blocks that are trained together."""
        device, at_once = self.training.device, self.training.seeds_at_once
        if device.type == "cuda" and at_once is None:
            at_once = seeds_that_fit(self.trainer, lanes, device)
        sizes = {split: task.sizes for split, task in self.tasks.items()}
        width = CPU_LANES if self.running.way == "stacked" else 1
        return lane_blocks(lanes, device, at_once, width, sizes)

    def at_once(self, blocks: int) -> int:
        """Return how many of so many blocks are trained side by side: several only if nothing
        that they run has a state of its own, or belongs to the thread that called."""
        training = self.training
        models = () if self.running.way == "traced" else self.model.modules()
        known = all(
            type(part).__module__.startswith(("drgcn.", "torch.nn."))
            for part in (training.rule, *models)
        )
        named = all(isinstance(one, str | None) for one in (training.loss, training.metric))
        apart = known and named and not torch.is_autocast_enabled("cpu")
        return min(torch.get_num_threads(), blocks) if apart and self.on_one_thread else 1

    def fingerprint(self, data: TaskData, usual: LaneSettings) -> str:
        """Hash all that its numbers depend on, so that only its own checkpoints are resumed."""
        by_name = self.training.loss is None and self.training.metric is None
        judged = () if by_name else tuple(self.judged)
        settings = (*self.training.settings(usual), *self.grid_pass.splits, *judged)
        first, _ = self.grid_pass.settings[0]
        make = self.maker(first.split, first.exponent)
        return fingerprint_of(settings, graphs_in(data), make, self.inputs)


def _made_ready(
    make_model: Callable[[], torch.nn.Module],
    data: TaskData,
    grid_pass: GridPass,
    training: _Training,
) -> _Pass:
    """Make inputs and tasks of a pass, and refuse what cannot be trained before any work."""
    device, prepare = training.device, training.prepare
    if is_links(data):
        make_model, prepare = link_maker(make_model, prepare), None
    maker = _observing(make_model, data, grid_pass, training)
    first, _ = grid_pass.settings[0]
    model = new_model(maker(first.split, first.exponent))
    prepare = prepare or default_prepare(model)
    task = Task.from_data(
        data,
        prepare,
        device,
        split=first.split,
        graphs_per_step=training.graphs_per_step,
        prepare_training=training_prepare(model, training.batch_size),
        inductive=training.inductive,
        batch_size=training.batch_size,
        loss=training.loss,
        metric=training.metric,
    )
    what = "pairs" if is_links(data) else "graphs" if is_graphs(data) else "nodes"
    kind = task.objective.kind
    outputs = try_model(model, task.val.inputs, task.val.size, device, what, kind)
    tasks = {
        split: task.on_split(data, split, training.loss, training.metric) if number else task
        for number, split in enumerate(grid_pass.splits)
    }
    judged = []
    for one in tasks.values():
        one.objective.expect_outputs(outputs)
        labels = {"val": one.val.labels, "test": one.test.labels}
        judged.append(one.objective.expect_defined(outputs, **labels))
    _expect_no_caches(model, task)
    _expect_settings_matter(model, task, training, [lane for lane, _ in grid_pass.settings])
    running = _way_of(model, maker(first.split, first.exponent), task, training)
    return _Pass(training, grid_pass, model, maker, prepare, tasks, judged, running)


def _observing(
    make_model: Callable[[], torch.nn.Module],
    data: TaskData,
    grid_pass: GridPass,
    training: _Training,
) -> Callable[[int | None, float | None], Callable[[], torch.nn.Module]]:
    """Return :func:`gate_observer` of the data; splits share what is checked and moved once."""
    choices = (training.loss, training.metric)
    first_view: list[Data] = []

    def view(split: int | None) -> Data:
        device = training.device
        seen = seen_in_training(data, split, training.inductive, choices, device, *first_view)
        if len(grid_pass.splits) > 1:
            first_view[:] = [seen]
        return seen

    return gate_observer(make_model, view)


def _is_small(task: Task) -> bool:
    sizes = [part.size for part in (*task.train, task.val, task.test)]
    return task.val.labels.device.type == "cpu" and max(sizes) <= _ONE_THREAD


def _way_of(
    model: torch.nn.Module,
    make_model: Callable[[], torch.nn.Module],
    task: Task,
    training: _Training,
) -> Running:
    """Return the way in which models are run, with a warning if it is not the fastest."""
    # Models of the library are made to be stacked, and their tests show that they can be.
    if task.batches is not None or type(model).__module__.startswith("drgcn.nn."):
        return Running()
    with one_thread_each() if _is_small(task) else contextlib.nullcontext():
        tracing = training.epochs >= _WORTH_TRACING
        running = choose_way(make_model, task.val.inputs, training.device, tracing=tracing)
    if running.reason:
        name = type(model).__name__
        _log.warning("%s is not trained in the fastest way: %s", name, running.reason)
    return running


@torch.inference_mode(False)
@torch.enable_grad()
def _run_pass(
    make_model: Callable[[], torch.nn.Module],
    data: TaskData,
    seeds: tuple[int, ...],
    grid_pass: GridPass,
    training: _Training,
    loop: EpochLoop,
    waiting: int,
) -> FitResult:
    """Train all seeds with all settings of a pass; ``waiting`` others are to come."""
    ready = _made_ready(make_model, data, grid_pass, training)
    lanes = [Lane(seed, *settings) for settings in grid_pass.settings for seed in seeds]
    blocks = ready.blocks(lanes)
    loop.begin_pass(
        lanes,
        len(blocks) + waiting,
        at_once=ready.at_once(len(blocks)),
        label=repr(grid_pass.arguments) if lanes[0].chosen else "",
        fingerprint="" if loop.checkpoint is None else ready.fingerprint(data, loop.usual),
    )
    found = FitResult.concatenate(_train_blocks(ready, blocks, {lane.key for lane in lanes}, loop))
    # A block's seconds are those of one of so many at once, which the last ones were not.
    rounds = math.ceil(len(blocks) / loop.at_once)
    found = replace(found, seconds=found.seconds * rounds * loop.at_once / len(blocks))
    at = {lane.key: place for place, lane in enumerate(lane for block in blocks for lane in block)}
    return replace(found.take([at[lane.key] for lane in lanes]), prepare=ready.prepare)


def _train_blocks(
    ready: _Pass, blocks: list[list[Lane]], asked: set[tuple[int, str]], loop: EpochLoop
) -> list[FitResult]:
    """Train the blocks of a pass, one after the other or side by side."""
    building = threading.Lock()  # draws from the generators of the process

    def train(block: list[Lane]) -> FitResult:
        with building:
            trainer = ready.trainer(block)
        seconds = loop.run(trainer)
        return _test(trainer, seconds, block, asked)

    if not ready.on_one_thread:
        return [train(block) for block in blocks]
    if loop.at_once > 1:
        ready.trainer(blocks[0]).record_passes()
    return side_by_side(train, blocks, loop.at_once, loop.stop)


def _expect_settings_matter(
    model: torch.nn.Module, task: Task, training: _Training, lanes: list[LaneSettings]
) -> None:
    """Refuse settings of a grid that would change nothing, or that not all lanes have."""
    given = [lane.dropout is not None for lane in lanes]
    if any(given) and not all(given):
        raise InputError("Expected dropout in all settings of a grid, or in none.")
    if any(given):
        randomness = SeededRandomness(torch.zeros((), dtype=torch.int64, device=training.device))
        part = task.train[0]
        trial = copy.deepcopy(model).train().to(training.device)
        with torch.no_grad(), torch.random.fork_rng(devices=[]), randomness:
            trial(*(part.inputs if task.batches is None else task.val.inputs))
        if not randomness.calls:
            raise InputError(
                f"Expected a model with dropout for a grid of rates; {type(model).__name__} drops "
                f"nothing. Build it with any rate above zero, which the grid then replaces."
            )
    smoothed = any(lane.label_smoothing for lane in lanes)
    if smoothed and (
        task.objective.kind != "classes" or training.loss not in (None, "cross_entropy")
    ):
        raise InputError(
            "Expected label smoothing with classes and the usual cross-entropy; found another "
            "loss. Leave it out of the grid, or build it into the loss."
        )


def _expect_no_caches(model: torch.nn.Module, task: Task) -> None:
    """Refuse layers that would use the edges of one part for all of them."""
    if all(part.inputs is task.val.inputs for part in (*task.train, task.test)):
        return
    for name, module in model.named_modules():
        if getattr(module, "cached", False) is True:
            raise InputError(
                f"Expected convolutions without cached=True, as training and evaluation see "
                f"different graphs here; found it in {name} ({type(module).__name__})."
            )


@torch.no_grad()
def _test(
    trainer: Trainer, seconds: float, block: Sequence[Lane], asked: set[tuple[int, str]]
) -> FitResult:
    """Score every lane on the test nodes, once, with the weights that its rule kept.

    Lanes that were not asked for only fill a block. One that diverged is an error; in a grid,
    where others go on, its scores are NaN.
    """
    stack, test, objective = trainer.stack, trainer.task.test, trainer.task.objective
    lanes = torch.arange(len(stack.seeds), device=test.nodes.device)
    kept_loss = trainer.curve("val_loss")[trainer.best_epoch - 1, lanes]
    lost = (trainer.best_epoch == 0) | ~kept_loss.isfinite()
    diverged = [block[i] for i in lost.nonzero().flatten().tolist() if block[i].key in asked]
    if diverged and not block[0].chosen:
        raise NoResultError(
            f"Training diverged for seeds {sorted(lane.seed for lane in diverged)}: "
            f"the kept epoch has no finite validation loss. Lower the learning rate, or scale "
            f"the features (normalize='standard')."
        )
    for name, value in stack.state().items():
        value.copy_(trainer.best[name])
    scores = test.scored(stack(test.inputs))
    # Of which shares would be counted all the same, as if they were answers.
    unscored = scores.isnan().flatten(1).any(1)
    silent = [block[i] for i in unscored.nonzero().flatten().tolist() if block[i].key in asked]
    if silent and not block[0].chosen:
        raise NoResultError(
            f"Expected scores of the test part; the models that were kept return NaN for some of "
            f"it, for seeds {sorted(lane.seed for lane in silent)}. Look for divisions by zero "
            f"and logarithms of what only the test part has."
        )
    test_accuracy = objective.score(scores, test.labels)
    val_accuracy = trainer.curve("val_accuracy")[trainer.best_epoch - 1, lanes]
    return FitResult(
        seeds=stack.seeds,
        best_epoch=trainer.best_epoch.tolist(),
        epochs_run=trainer.last_epoch.tolist(),
        val_accuracy=val_accuracy.where(~lost, torch.nan).tolist(),
        test_accuracy=test_accuracy.where(~(lost | unscored), torch.nan).tolist(),
        curves={name: trainer.curves_to_stop(name) for name in trainer.curve_names},
        models=[stack.model(lane) for lane in lanes.tolist()],
        seconds=seconds,
        metric=objective.metric,
        higher_is_better=objective.higher_is_better,
        kind=objective.kind,
        settings=[lane.chosen for lane in block],
    )
