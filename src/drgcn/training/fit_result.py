"""What a pass over several seeds found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

_PER_SEED = ("best_epoch", "epochs_run", "val_accuracy", "test_accuracy", "models")


@dataclass(frozen=True)
class FitResult:
    """Per seed, in the order of ``seeds``: the epoch that was kept and how it did.

    Attributes:
        seeds: The seeds.
        best_epoch: The epoch whose weights were kept, from 1.
        epochs_run: Epochs trained before the rule said stop.
        val_accuracy: Validation accuracy at the kept epoch.
        test_accuracy: Test accuracy of the kept weights, looked at once.
        curves: ``train_loss``, ``val_loss`` and ``val_accuracy`` after each epoch.
        models: Ordinary modules with the kept weights, in evaluation mode.
        seconds: Wall time of the training.
        metric: What "accuracy" is: the share of right predictions, or micro-F1 for many labels.
    """

    seeds: tuple[int, ...]
    best_epoch: list[int]
    epochs_run: list[int]
    val_accuracy: list[float]
    test_accuracy: list[float]
    curves: dict[str, list[Tensor]] = field(repr=False)
    models: list[torch.nn.Module] = field(repr=False)
    seconds: float
    metric: str = "accuracy"

    def select(self, seeds: Sequence[int]) -> FitResult:
        """The results of some of the seeds."""
        places = [self.seeds.index(seed) for seed in seeds]
        chosen = {name: [getattr(self, name)[i] for i in places] for name in _PER_SEED}
        curves = {name: [curve[i] for i in places] for name, curve in self.curves.items()}
        return replace(self, seeds=tuple(seeds), curves=curves, **chosen)  # type: ignore[arg-type]

    @classmethod
    def concatenate(cls, parts: Sequence[FitResult]) -> FitResult:
        """The results of several passes as one."""
        joined = {name: [v for part in parts for v in getattr(part, name)] for name in _PER_SEED}
        curves = {
            name: [curve for part in parts for curve in part.curves[name]]
            for name in parts[0].curves
        }
        return cls(
            seeds=tuple(seed for part in parts for seed in part.seeds),
            curves=curves,
            seconds=sum(part.seconds for part in parts),
            metric=parts[0].metric,
            **joined,
        )
