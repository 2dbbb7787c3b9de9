"""Training of many seeds in one pass, on whole graphs or on samples of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch_geometric.data import Data

from drgcn.errors import DrgcnError, InputError
from drgcn.training.epoch_loop import EpochLoop, Progress
from drgcn.training.fingerprint import fingerprint_of
from drgcn.training.fit_result import FitResult
from drgcn.training.model_stack import ModelStack
from drgcn.training.schedule import StepwiseDecay
from drgcn.training.seed_chunks import seed_blocks, seeds_that_fit
from drgcn.training.stopping import BestValidation, StoppingRule
from drgcn.training.task import Inductive, Prepare, Task
from drgcn.training.trainer import CURVES, Trainer


def fit(
    make_model: Callable[[], torch.nn.Module],
    data: Data,
    seeds: Iterable[int],
    *,
    epochs: int = 800,
    rule: StoppingRule | None = None,
    optimizer: type[torch.optim.Optimizer] = torch.optim.Adam,
    lr: float = 0.01,
    weight_decay: float = 5e-4,
    schedule: StepwiseDecay | None = None,
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
    """Trains one model per seed, many at once, and tests each at its best epoch.

    Works for any full-batch module, ours or PyG's, and for models that sample (FastGCN, ASGCN,
    GraphSAGE) with a ``batch_size``. A seed's numbers do not depend on the seeds asked for beside
    it: initialisation, dropout, batches and samples have streams of their own.

    Args:
        make_model: Builds one model. A model may offer ``prepare(data)``, which returns the
            arguments of its ``forward``, ``regularized_parameters()``, or, as a regulariser of
            its own, ``penalty(weight_decay)``. One that samples offers
            ``prepare_training(data)`` and ``sampled(batch, *inputs)``, which returns scores and
            what is added to the loss.
        data: A graph with ``y`` and the three masks; or several, with ``graph`` [nodes] as
            :func:`drgcn.data.unite` joins them, for inductive training. ``y`` [nodes] holds
            classes, ``y`` [nodes, labels] zeros and ones.
        seeds: The seeds, from 0.
        epochs: Budget of epochs.
        rule: Which epoch to test and when to stop. (default: :class:`BestValidation`)
        optimizer: Class of an elementwise optimiser.
        lr: Learning rate.
        weight_decay: L2 coefficient, on ``regularized_parameters()`` or else on everything.
        schedule: How the learning rate changes. (default: not at all)
        prepare: Makes the arguments of ``forward`` from a graph. (default: the model's own, or
            else ``(data.x, data.edge_index)``)
        graphs_per_step: Training graphs in each step of an epoch, if ``data`` holds several.
            (default: all)
        inductive: ``"train"``: train on the training nodes and the edges between them, and
            evaluate on the whole graph; ``"apart"``: evaluate on the training nodes and those
            looked at. (default: the whole graph is seen in training)
        batch_size: Training nodes in each step, for models that sample. (default: all)
        device: Where to train. On CUDA an epoch is replayed as one graph.
        seeds_at_once: On CUDA, at most so many seeds in one pass. (default: as many as free
            memory holds, found by trying)
        progress: Called now and then with a :class:`Progress`.
        checkpoint: Where the state is saved, one file per block of seeds, so that the same
            call goes on after a kill. Store the results, then call :func:`clear_checkpoint`.
        checkpoint_every: Seconds between checkpoints.
    """
    if isinstance(seeds, int):
        raise InputError(f"Expected several seeds, such as range({seeds}); found one number.")
    if isinstance(make_model, torch.nn.Module) or not callable(make_model):
        raise InputError(
            f"Expected a function that builds a model, such as lambda: GCN(...); found "
            f"{type(make_model).__name__}."
        )
    if not isinstance(data, Data):
        raise InputError(
            f"Expected one PyG Data; found {type(data).__name__}. Join lists of graphs with "
            f"drgcn.data.unite."
        )
    if not isinstance(epochs, int) or epochs < 1:
        raise InputError(f"Expected at least one epoch; found {epochs}.")
    if not (math.isfinite(lr) and math.isfinite(weight_decay)):
        raise InputError(f"Expected finite lr and weight_decay; found {lr} and {weight_decay}.")
    seeds = tuple(seeds)
    whole = all(isinstance(seed, int) for seed in seeds)
    if not seeds or not whole or len(set(seeds)) != len(seeds) or min(seeds) < 0:
        raise InputError(f"Expected distinct seeds from 0 upwards; found {list(seeds)}.")
    if seeds_at_once is not None and seeds_at_once < 1:
        raise InputError(f"Expected seeds_at_once to be at least one; found {seeds_at_once}.")
    device = torch.device(device)
    chosen_rule = rule or BestValidation()
    own, own_training = _preparations(make_model, batch_size)
    task = Task.from_data(
        data,
        prepare or own,
        device,
        graphs_per_step=graphs_per_step,
        prepare_training=own_training,
        inductive=inductive,
        batch_size=batch_size,
    )

    def make_trainer(block: tuple[int, ...]) -> Trainer:
        return Trainer(
            ModelStack(make_model, block, task.val.inputs, device),
            task,
            chosen_rule,
            epochs=epochs,
            optimizer=optimizer,
            lr=lr,
            weight_decay=weight_decay,
            schedule=schedule,
        )

    if device.type == "cuda" and seeds_at_once is None:
        seeds_at_once = seeds_that_fit(make_trainer, seeds, device)
    blocks = seed_blocks(seeds, device, seeds_at_once)
    training = (epochs, chosen_rule, optimizer.__name__, lr, weight_decay, schedule)
    settings = (*training, graphs_per_step, inductive, batch_size)
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
    return FitResult.concatenate(results).select(seeds)


def _preparations(
    make_model: Callable[[], torch.nn.Module], batch_size: int | None
) -> tuple[Prepare, Prepare | None]:
    """What makes the arguments of a model's ``forward`` and of its training steps."""
    with torch.random.fork_rng(devices=[]):
        model = make_model()
    if not isinstance(model, torch.nn.Module):
        found = type(model).__name__
        raise InputError(f"Expected make_model to return a module; it returned {found}.")
    prepare = getattr(model, "prepare", None) or (lambda data: (data.x, data.edge_index))
    if batch_size is None:
        return prepare, None
    if not (hasattr(model, "sampled") and hasattr(model, "prepare_training")):
        raise InputError(
            f"Expected a model that samples, such as FastGCN, with batch_size; found "
            f"{type(model).__name__}, which takes whole graphs. Leave batch_size out."
        )
    return prepare, model.prepare_training  # type: ignore[return-value]


@torch.no_grad()
def _test(trainer: Trainer, seconds: float, asked: tuple[int, ...]) -> FitResult:
    """The one look at the test nodes: every seed at the weights its rule kept."""
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
    )
