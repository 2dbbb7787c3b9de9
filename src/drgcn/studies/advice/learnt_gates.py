"""Gates that a small Dr-GCN learns on some data, and how K moves while they are learnt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import permutations
from typing import Any, Literal

import numpy as np
import torch
from scipy import stats
from torch_geometric.data import Data

from drgcn.errors import DrgcnError
from drgcn.studies.build import build, stopping_rule
from drgcn.studies.experiment import Experiment, recipe
from drgcn.studies.run import LayerState, layer_states
from drgcn.training.grid import LaneSettings, seed_blocks
from drgcn.training.stack import ModelStack
from drgcn.training.task import Task, tested_inputs
from drgcn.training.trainer import Trainer

# Close together at first, where gates move fastest: each look is a forward pass of every seed.
_LOOKS = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 2000)
_CPU = torch.device("cpu")
# Up to here every order is counted, 40,320 at most; Student's t is close enough above.
_COUNTED = 8
_CHANCE = 0.05

Order = Literal["damped", "amplified", "no clear order"]


@dataclass(frozen=True)
class LearntGates:
    """The gates of one seed.

    Attributes:
        seed: The seed.
        best_epoch: The epoch whose weights were kept, of the best validation accuracy.
        k: K of every layer at that epoch; ``None`` where it is undefined.
        saturation: Share of each layer's gate entries at either end, at that epoch.
        s: Gate of the first layer at that epoch; the mean over graphs where there are several.
        epochs: Epochs that were looked at; 0 is before training.
        k_by_epoch: K of every layer at each of them.
    """

    seed: int
    best_epoch: int
    k: list[float | None]
    saturation: list[float]
    s: list[float]
    epochs: list[int]
    k_by_epoch: list[list[float | None]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def learn_gates(
    data: Data,
    seeds: int,
    epochs: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[LearntGates]:
    """Train the usual Dr-GCN on CPU and look at its gates now and then.

    The numbers are those of :func:`drgcn.fit` with the same settings: looking changes nothing.

    Args:
        data: A graph from :func:`drgcn.load`.
        seeds: How many seeds, from 0.
        epochs: Epochs to train.
        progress: Called after every epoch with the epochs done and those in all.
    """
    info = data.dataset
    experiment = recipe(info.name, info.split, reweight="dr", epochs=epochs)
    found = []
    blocks = seed_blocks(tuple(range(seeds)), _CPU)
    for number, block in enumerate(blocks):
        before = number * epochs

        def show(epoch: int, before: int = before) -> None:
            if progress is not None:
                progress(before + epoch, len(blocks) * epochs)

        found += _train(experiment, data, block, seeds, show)
    return found


def damping(variance: Sequence[float], learnt: Sequence[LearntGates]) -> list[float]:
    """Spearman's rank correlation of variance and learnt s over the dimensions that vary, for
    each seed: below zero where loud dimensions are damped more than quiet ones.

    Seeds whose gate is constant, where there is no such number, are left out.
    """
    loud = np.array(variance)
    varies = loud > 0
    gates = [np.array(one.s)[varies] for one in learnt]
    return [float(stats.spearmanr(loud[varies], s)[0]) for s in gates if np.ptp(s) > 0]


def order_of(found: Sequence[float], dimensions: int) -> Order:
    """Tell whether loud dimensions were damped, or amplified, in every seed and beyond chance.

    Args:
        found: Rank correlations from :func:`damping`.
        dimensions: How many dimensions vary, over which they were taken.
    """
    bound = chance_bound(dimensions)
    if found and max(found) <= -bound:
        return "damped"
    if found and min(found) >= bound:
        return "amplified"
    return "no clear order"


@cache
def chance_bound(dimensions: int) -> float:
    """The least size of Spearman's correlation that two unrelated orders of so many dimensions
    reach, in either direction, at most one time in twenty; infinite where none is so rare."""
    if dimensions > _COUNTED:
        t = stats.t.ppf(1 - _CHANCE / 2, dimensions - 2)
        return float(t / np.sqrt(dimensions - 2 + t * t))
    orders = np.array(list(permutations(range(dimensions))))
    squares = np.square(orders - np.arange(dimensions)).sum(1)
    size = np.abs(1 - 6 * squares / max(dimensions * (dimensions**2 - 1), 1)).round(9)
    rare = [bound for bound in np.unique(size) if (size >= bound).mean() <= _CHANCE]
    # Lowered by more than rounding and less than a step, as others round in another order.
    return float(rare[0]) - 1e-6 if rare else float("inf")


def _train(
    experiment: Experiment,
    data: Data,
    block: tuple[int, ...],
    asked: int,
    show: Callable[[int], None],
) -> list[LearntGates]:
    prepare = build(experiment, data).prepare
    task = Task.from_data(data, prepare, _CPU)  # type: ignore[arg-type]
    stack = ModelStack(lambda: build(experiment, data), block, task.train[0].inputs, _CPU)
    trainer = Trainer(
        stack,
        task,
        stopping_rule(experiment),
        epochs=experiment.epochs,
        optimizer=torch.optim.Adam,
        lanes=LaneSettings(experiment.lr, experiment.weight_decay),
    )
    inputs = tested_inputs(data, prepare, _CPU)  # type: ignore[arg-type]

    lanes = [lane for lane, seed in enumerate(block) if seed < asked]  # others fill the block

    def states() -> list[list[LayerState]]:
        return [layer_states(stack.model(lane), inputs) for lane in lanes]

    looks = {epoch for epoch in _LOOKS if epoch < experiment.epochs} | {experiment.epochs}
    seen = {0: states()}
    for epoch in range(1, experiment.epochs + 1):
        trainer.run_epoch()
        show(epoch)
        if epoch in looks:
            seen[epoch] = states()
    kept_loss = trainer.curve("val_loss")[trainer.best_epoch - 1, torch.arange(len(block))]
    if not bool(kept_loss[lanes].isfinite().all()):
        raise DrgcnError(
            "Training diverged: the kept epoch has no finite validation loss. Scale the features "
            "(normalize='standard')."
        )
    with torch.no_grad():
        for name, value in stack.state().items():
            value.copy_(trainer.best[name])
    return [
        LearntGates(
            seed=block[lane],
            best_epoch=int(trainer.best_epoch[lane]),
            k=[layer.k for layer in kept],
            saturation=[layer.saturation for layer in kept],
            s=[round(value, 6) for value in kept[0].s.tolist()],
            epochs=list(seen),
            k_by_epoch=[[layer.k for layer in look[place]] for look in seen.values()],
        )
        for place, (lane, kept) in enumerate(zip(lanes, states(), strict=True))
    ]
