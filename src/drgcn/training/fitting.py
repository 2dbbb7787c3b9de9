"""``fit``: train many seeds in one pass, on whole graphs or on samples of them."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from drgcn.errors import DrgcnError, InputError
from drgcn.training.inputs import (
    MakeOptimizer,
    Prepare,
    checked_device,
    checked_seeds,
    default_prepare,
    expect_elementwise,
    name_of,
    new_model,
    try_model,
)
from drgcn.training.objectives import LossChoice, MetricChoice
from drgcn.training.result import FitResult
from drgcn.training.stack import ModelStack, Running, choose_way
from drgcn.training.stopping import BestValidation, StoppingRule
from drgcn.training.task import (
    Inductive,
    Task,
    TaskData,
    graphs_in,
    is_graphs,
    is_links,
    link_maker,
)
from drgcn.training.trainer import (
    CURVES,
    EpochLoop,
    Progress,
    Schedule,
    Trainer,
    learning_rates,
)

# Seeds that are trained together on CPU, see :func:`seed_blocks`.
CPU_LANES: Final = 4
# Fewest epochs for which a pass is recorded as a program, which takes a second.
_WORTH_TRACING: Final = 20
# A recorded epoch keeps a memory pool of its own beside that of the epochs before it, and
# allocators round up.
_PEAKS_PER_PASS: Final = 2.0
_SHARE_OF_FREE_MEMORY: Final = 0.9
# Tensors of a graph that a checkpoint belongs to.
_OF_NODES: Final = ("y", "train_mask", "val_mask", "edge_index", "x", "graph", "edge_weight")
_HASHED: Final = (*_OF_NODES, "edge_label_index", "edge_label")
# Version of the layout of checkpoints; one of another layout cannot be resumed.
_STATE: Final = 3

_log = logging.getLogger(__name__)


def fit(
    make_model: Callable[[], torch.nn.Module],
    data: TaskData,
    seeds: Iterable[int],
    *,
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
) -> FitResult:
    """Train one model per seed, many at once, and test each at its best epoch.

    Works for any full-batch module, ours or PyG's, and for models that sample (FastGCN, ASGCN,
    GraphSAGE) with a ``batch_size``. A seed's numbers do not depend on the seeds asked for beside
    it: initialisation, dropout, batches and samples have streams of their own.

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
        progress: Called a few times a second with a :class:`Progress`.
        checkpoint: Path at which the state is saved, one file per block of seeds, so that the
            same call resumes after a kill. Store the results, then call
            :func:`clear_checkpoint`.
        checkpoint_every: Seconds between checkpoints.
    """
    _check_numbers(epochs, lr, weight_decay, seeds_at_once)
    seeds = checked_seeds(seeds)
    device = checked_device(device)
    expect_elementwise(optimizer, lr)
    rates = None if schedule is None else learning_rates(schedule, lr, epochs)
    chosen_rule = rule or BestValidation()
    if is_links(data):
        make_model, prepare = link_maker(make_model, prepare), None
    model = new_model(make_model)
    prepare = prepare or default_prepare(model)
    task = Task.from_data(
        data,
        prepare,
        device,
        split=split,
        graphs_per_step=graphs_per_step,
        prepare_training=_training_prepare(model, batch_size),
        inductive=inductive,
        batch_size=batch_size,
        loss=loss,
        metric=metric,
    )
    what = "pairs" if is_links(data) else "graphs" if is_graphs(data) else "nodes"
    outputs = try_model(model, task.val.inputs, task.val.size, device, what)
    task.objective.expect_outputs(outputs)
    judged = task.objective.expect_defined(outputs, val=task.val.labels, test=task.test.labels)
    _expect_no_caches(model, task)
    if task.batches is None:
        running = choose_way(make_model, task.val.inputs, device, tracing=epochs >= _WORTH_TRACING)
    else:
        running = Running()
    if running.reason:
        _log.warning(
            "%s is not trained in the fastest way: %s", type(model).__name__, running.reason
        )

    def make_trainer(block: tuple[int, ...]) -> Trainer:
        return Trainer(
            ModelStack(make_model, block, task.val.inputs, device, running),
            task,
            chosen_rule,
            epochs=epochs,
            optimizer=optimizer,
            lr=lr,
            weight_decay=weight_decay,
            rates=rates,
        )

    if device.type == "cuda" and seeds_at_once is None:
        seeds_at_once = seeds_that_fit(make_trainer, seeds, device)
    lanes = CPU_LANES if running.way == "stacked" else 1
    blocks = seed_blocks(seeds, device, seeds_at_once, lanes)
    scheduled = () if rates is None else tuple(rates.tolist())
    training = (epochs, chosen_rule, name_of(optimizer), lr, weight_decay, scheduled)
    chosen = () if loss is None and metric is None else (judged,)
    settings = (*training, split, graphs_per_step, inductive, batch_size, *chosen)
    fingerprint = "" if checkpoint is None else fingerprint_of(settings, data, make_model)
    loop = EpochLoop(
        epochs,
        len(blocks),
        len(seeds),
        progress=progress,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        fingerprint=fingerprint,
    )
    results = []
    for block in blocks:
        trainer = make_trainer(block)
        seconds = loop.run(trainer)
        results.append(_test(trainer, seconds, seeds))
    return replace(FitResult.concatenate(results).select(seeds), prepare=prepare)


def _check_numbers(epochs: int, lr: float, weight_decay: float, seeds_at_once: int | None) -> None:
    if not isinstance(epochs, int) or epochs < 1:
        raise InputError(f"Expected at least one epoch; found {epochs}.")
    if not (math.isfinite(lr) and math.isfinite(weight_decay)):
        raise InputError(f"Expected finite lr and weight_decay; found {lr} and {weight_decay}.")
    if seeds_at_once is not None and seeds_at_once < 1:
        raise InputError(f"Expected seeds_at_once to be at least one; found {seeds_at_once}.")


def _training_prepare(model: torch.nn.Module, batch_size: int | None) -> Prepare | None:
    """Return the function that prepares the arguments of steps on samples."""
    if batch_size is None:
        return None
    if not (hasattr(model, "sampled") and hasattr(model, "prepare_training")):
        raise InputError(
            f"Expected a model that samples, such as FastGCN, with batch_size; found "
            f"{type(model).__name__}, which takes whole graphs. Leave batch_size out."
        )
    return model.prepare_training  # type: ignore[return-value]


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


def seeds_that_fit(
    make_trainer: Callable[[tuple[int, ...]], Trainer],
    seeds: tuple[int, ...],
    device: torch.device,
) -> int:
    """Number of seeds that can be trained at once in the free memory of a CUDA device.

    One epoch of one seed and one epoch of two are run and thrown away; their difference is the
    memory that each further seed needs.
    """
    if len(seeds) < 3:
        return len(seeds)
    torch.cuda.empty_cache()
    one, two = (_peak(make_trainer, seeds[:count], device) for count in (1, 2))
    free, _ = torch.cuda.mem_get_info(device)
    each = max(two - one, 1)
    shared = max(one - each, 0)
    room = int((_SHARE_OF_FREE_MEMORY * free / _PEAKS_PER_PASS - shared) // each)
    if room < 1:
        raise InputError(
            f"Expected room for one seed, about {one * _PEAKS_PER_PASS / 2**30:.1f} GiB; found "
            f"{free / 2**30:.1f} GiB free on {device}. Free memory, or use a smaller model."
        )
    return min(room, len(seeds))


def _peak(
    make_trainer: Callable[[tuple[int, ...]], Trainer],
    seeds: tuple[int, ...],
    device: torch.device,
) -> int:
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    trainer = make_trainer(seeds)
    trainer.run_epoch()
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - before
    del trainer
    torch.cuda.empty_cache()
    return peak


def seed_blocks(
    seeds: tuple[int, ...],
    device: torch.device,
    at_once: int | None = None,
    lanes: int = CPU_LANES,
) -> list[tuple[int, ...]]:
    """Group the seeds into blocks that are trained together.

    On CPU a seed always trains in the same lane of the same block, whether its neighbours were
    asked for or not: of four for models that are made to be stacked, else of one. Vectorised
    kernels round the last elements of an array differently from the others, so only this makes a
    seed's numbers the same to the bit. More lanes would be faster for many seeds, fewer for one:
    docs/decisions.md has the figures. Elsewhere all seeds form one block, or several of nearly
    equal size.
    """
    if device.type == "cpu":
        starts = sorted({seed - seed % lanes for seed in seeds})
        return [tuple(range(start, start + lanes)) for start in starts]
    passes = -(-len(seeds) // min(at_once or len(seeds), len(seeds)))
    ends = [len(seeds) * number // passes for number in range(passes + 1)]
    return [seeds[start:end] for start, end in pairwise(ends)]


def fingerprint_of(
    settings: tuple[Any, ...], data: TaskData, make_model: Callable[[], torch.nn.Module]
) -> str:
    """Hash settings, data and model, so that only checkpoints of the same run are resumed."""
    digest = hashlib.sha256(repr((_STATE, *settings)).encode())
    for graph in graphs_in(data):
        for name in _HASHED:
            if isinstance(value := graph.get(name), Tensor):
                dense = value if value.layout == torch.strided else value.to_dense()
                digest.update(dense.cpu().numpy().tobytes())
    model = new_model(make_model)
    digest.update(repr(model).encode())
    for module in model.modules():  # dropout rates and the like are seldom printed
        facts = {k: v for k, v in vars(module).items() if _is_plain(v)}
        digest.update(repr(sorted(facts.items())).encode())
    return digest.hexdigest()


def _is_plain(value: Any) -> bool:
    """True for values that print the same in every process: numbers, text, tuples of them."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, int | float | str)


@torch.no_grad()
def _test(trainer: Trainer, seconds: float, asked: tuple[int, ...]) -> FitResult:
    """Score every seed on the test nodes, once, with the weights that its rule kept."""
    stack, test, objective = trainer.stack, trainer.task.test, trainer.task.objective
    lanes = torch.arange(len(stack.seeds), device=test.nodes.device)
    kept_loss = trainer.curve("val_loss")[trainer.best_epoch - 1, lanes]
    lost = (trainer.best_epoch == 0) | ~kept_loss.isfinite()
    diverged = {stack.seeds[i] for i in lost.nonzero().flatten().tolist()}
    if diverged & set(asked):  # lanes that only fill a block do not count
        raise DrgcnError(
            f"Training diverged for seeds {sorted(diverged & set(asked))}: "
            f"the kept epoch has no finite validation loss. Lower the learning rate, or scale "
            f"the features (normalize='standard')."
        )
    for name, value in stack.state().items():
        value.copy_(trainer.best[name])
    test_accuracy = objective.score(stack(test.inputs)[:, test.nodes], test.labels)
    return FitResult(
        seeds=stack.seeds,
        best_epoch=trainer.best_epoch.tolist(),
        epochs_run=trainer.last_epoch.tolist(),
        val_accuracy=trainer.curve("val_accuracy")[trainer.best_epoch - 1, lanes].tolist(),
        test_accuracy=test_accuracy.tolist(),
        curves={name: list(trainer.curve(name).T.cpu()) for name in CURVES},
        models=[stack.model(lane) for lane in lanes.tolist()],
        seconds=seconds,
        metric=objective.metric,
        higher_is_better=objective.higher_is_better,
        kind=objective.kind,
    )
