"""Full-batch training of many seeds in one pass."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from drgcn.errors import DrgcnError, InputError
from drgcn.training.epoch_loop import EpochLoop, Progress
from drgcn.training.fit_result import FitResult
from drgcn.training.model_stack import ModelStack
from drgcn.training.objective import accuracy
from drgcn.training.stopping import BestValidation, StoppingRule
from drgcn.training.trainer import CURVES, Target, Trainer

CPU_LANES = 4


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
    inputs: tuple[Any, ...] | None = None,
    device: torch.device | str = "cpu",
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: float = 10.0,
) -> FitResult:
    """Trains one model per seed, many at once, and tests each at its best epoch.

    Works for any full-batch module, ours or PyG's. A seed's numbers do not depend on the
    seeds asked for beside it: initialisation and dropout have streams of their own.

    Args:
        make_model: Builds one model. A model may offer ``prepare(data)``, which returns the
            arguments of its ``forward``, and ``regularized_parameters()``.
        data: A graph with ``y`` and the three masks.
        seeds: The seeds, from 0.
        epochs: Budget of epochs.
        rule: Which epoch to test and when to stop. (default: :class:`BestValidation`)
        optimizer: Class of an elementwise optimiser.
        lr: Learning rate.
        weight_decay: L2 coefficient, on ``regularized_parameters()`` or else on everything.
        inputs: Arguments of ``forward``. (default: ``prepare(data)`` or else
            ``(data.x, data.edge_index)``)
        device: Where to train. On CUDA an epoch is replayed as one graph.
        progress: Called now and then with a :class:`Progress`.
        checkpoint: Where the state is saved, one file per block of seeds, so that the same
            call goes on after a kill. Store the results, then call :func:`clear_checkpoint`.
        checkpoint_every: Seconds between checkpoints.
    """
    if isinstance(seeds, int):
        raise InputError(f"Expected several seeds, such as range({seeds}); found one number.")
    if epochs < 1:
        raise InputError(f"Expected at least one epoch; found {epochs}.")
    seeds = tuple(seeds)
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0:
        raise InputError(f"Expected distinct seeds from 0 upwards; found {list(seeds)}.")
    device = torch.device(device)
    train, val, test = (_nodes(data, part).to(device) for part in ("train", "val", "test"))
    if inputs is None:
        with torch.random.fork_rng(devices=[]):
            prepare = getattr(make_model(), "prepare", None)
        inputs = prepare(data) if prepare else (data.x, data.edge_index)
    inputs = tuple(v.to(device) if hasattr(v, "to") else v for v in inputs)
    blocks = seed_blocks(seeds, device)
    settings = (epochs, rule or BestValidation(), optimizer.__name__, lr, weight_decay)
    fingerprint = "" if checkpoint is None else _fingerprint(settings, data, make_model)
    loop = EpochLoop(epochs, len(blocks), progress, checkpoint, checkpoint_every, fingerprint)
    results = []
    for block in blocks:
        trainer = Trainer(
            ModelStack(make_model, block, inputs, device),
            Target(data.y.to(device), train, val),
            rule or BestValidation(),
            epochs=epochs,
            optimizer=optimizer,
            lr=lr,
            weight_decay=weight_decay,
        )
        seconds = loop.run(trainer)
        results.append(_test(trainer, test, seconds))
    return FitResult.concatenate(results).select(seeds)


def seed_blocks(seeds: tuple[int, ...], device: torch.device) -> list[tuple[int, ...]]:
    """The seeds that are trained together.

    On CPU a seed always trains in the same lane of the same block of four, whether its
    neighbours were asked for or not. Vectorised kernels round the last elements of an array
    differently from the others, so only this makes a seed's numbers the same to the bit. More
    lanes would be faster for many seeds, fewer for one: docs/decisions.md has the figures.
    """
    if device.type != "cpu":
        return [seeds]
    starts = sorted({seed - seed % CPU_LANES for seed in seeds})
    return [tuple(range(start, start + CPU_LANES)) for start in starts]


@torch.no_grad()
def _test(trainer: Trainer, test: Tensor, seconds: float) -> FitResult:
    """The one look at the test nodes: every seed at the weights its rule kept."""
    stack = trainer.stack
    lanes = torch.arange(len(stack.seeds), device=test.device)
    kept_loss = trainer.curve("val_loss")[trainer.best_epoch - 1, lanes]
    lost = (trainer.best_epoch == 0) | ~kept_loss.isfinite()
    if bool(lost.any()):
        raise DrgcnError(
            f"Training diverged for seeds {[stack.seeds[i] for i in lost.nonzero().flatten()]}: "
            f"the kept epoch has no finite validation loss. Lower the learning rate, or scale "
            f"the features (normalize='standard')."
        )
    for name, value in stack.state().items():
        value.copy_(trainer.best[name])
    val_accuracy = trainer.curve("val_accuracy")[trainer.best_epoch - 1, lanes]
    test_accuracy = accuracy(stack()[:, test], trainer.target.labels[test])
    return FitResult(
        seeds=stack.seeds,
        best_epoch=trainer.best_epoch.tolist(),
        epochs_run=trainer.last_epoch.tolist(),
        val_accuracy=val_accuracy.tolist(),
        test_accuracy=test_accuracy.tolist(),
        curves={name: list(trainer.curve(name).T.cpu()) for name in CURVES},
        models=[stack.model(lane) for lane in lanes.tolist()],
        seconds=seconds,
    )


def _fingerprint(
    settings: tuple[Any, ...], data: Data, make_model: Callable[[], torch.nn.Module]
) -> str:
    """What makes a run this run: a checkpoint of any other one must not be mistaken for it."""
    digest = hashlib.sha256(repr(settings).encode())
    for name in ("y", "train_mask", "val_mask", "edge_index", "x"):
        if isinstance(value := data.get(name), Tensor):
            dense = value if value.layout == torch.strided else value.to_dense()
            digest.update(dense.cpu().numpy().tobytes())
    with torch.random.fork_rng(devices=[]):
        digest.update(repr(make_model()).encode())
    return digest.hexdigest()


def _nodes(data: Data, part: str) -> Tensor:
    mask = data.get(f"{part}_mask")
    if mask is None or not bool(mask.any()):
        raise InputError(
            f"Expected data.{part}_mask to mark at least one node; found "
            f"{'no such mask' if mask is None else 'an empty one'}. Give all three node sets."
        )
    nodes = mask.nonzero().flatten()
    if bool((data.y[nodes] < 0).any()):
        raise InputError(f"Expected labels on all nodes of data.{part}_mask; some have y < 0.")
    return nodes
