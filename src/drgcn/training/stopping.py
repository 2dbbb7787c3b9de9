"""Stopping rules: when a seed stops training, and which of its epochs is tested.

A rule sees the validation loss and accuracy of all seeds after every epoch, as tensors
``[seeds]``, and answers with tensors, so that an epoch never waits for the host. Accuracy stands
for the metric of the task; of an error it is the negative, so that more is always better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.training.inputs import checked_count

State = dict[str, Tensor]
Watch = Literal["both", "accuracy", "loss"]


class StoppingRule(Protocol):
    """A rule that decides, per seed, whether to keep the present weights and whether to stop."""

    @property
    def penalized_loss(self) -> bool:
        """True if the validation loss that this rule sees includes the L2 term."""

    def start(self, seeds: int, device: torch.device) -> State:
        """Return the state before the first epoch."""

    def update(
        self, state: State, epoch: Tensor, loss: Tensor, accuracy: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Update the state by one epoch (counted from 1); return the masks (keep, stop)."""


@dataclass(frozen=True)
class BestValidation:
    """Keep the first epoch of the highest validation accuracy, within the whole budget or until
    ``patience`` epochs in a row brought nothing better."""

    # NOTE[PAPER] "the model that performs best within 800 training epochs on the validation
    # set": best is taken as highest accuracy, and the first of equals.

    patience: int | None = None
    penalized_loss: bool = False

    def __post_init__(self) -> None:
        if self.patience is not None:
            object.__setattr__(self, "patience", checked_count(self.patience, "patience"))

    def start(self, seeds: int, device: torch.device) -> State:
        """Return the state before the first epoch."""
        return {
            "best": torch.full((seeds,), -torch.inf, device=device),
            "waited": torch.zeros(seeds, dtype=torch.int64, device=device),
        }

    def update(
        self, state: State, epoch: Tensor, loss: Tensor, accuracy: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Keep strict improvements; stop when patience is at an end."""
        keep = accuracy > state["best"]
        state["best"].copy_(torch.maximum(state["best"], accuracy))
        state["waited"].copy_(torch.where(keep, 0, state["waited"] + 1))
        if self.patience is None:
            return keep, torch.zeros_like(keep)
        return keep, state["waited"] >= self.patience


@dataclass(frozen=True)
class RisingLoss:
    """Kipf's rule: stop once the validation loss exceeds the mean of the last ten before it,
    and test the last weights."""

    window: int = 10
    penalized_loss: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", checked_count(self.window, "window"))

    def start(self, seeds: int, device: torch.device) -> State:
        """Return the state before the first epoch."""
        return {"losses": torch.zeros(self.window, seeds, device=device)}

    def update(
        self, state: State, epoch: Tensor, loss: Tensor, accuracy: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Keep every epoch; stop on a rise after the window is full."""
        # Kipf counts epochs from 0, asks for epoch > window, and compares with the mean of
        # the ``window`` losses before the present one.
        stop = (epoch - 1 > self.window) & (loss > state["losses"].mean(0))
        state["losses"].copy_(torch.cat([state["losses"][1:], loss[None]]))
        return torch.ones_like(stop), stop


@dataclass(frozen=True)
class Patience:
    """GAT's rule: patience is renewed when accuracy or loss is at least as good as ever, and
    weights are kept when both are.

    Args:
        patience: Epochs without renewal after which a seed stops.
        watch: ``"both"`` as above; ``"accuracy"`` or ``"loss"`` to look at one of them alone.
    """

    patience: int = 100
    watch: Watch = "both"
    penalized_loss: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "patience", checked_count(self.patience, "patience"))
        if self.watch not in get_args(Watch):
            raise InputError(f"Expected watch from {get_args(Watch)}; found {self.watch!r}.")

    def start(self, seeds: int, device: torch.device) -> State:
        """Return the state before the first epoch."""
        return {
            "accuracy": torch.full((seeds,), -torch.inf, device=device),
            "loss": torch.full((seeds,), torch.inf, device=device),
            "waited": torch.zeros(seeds, dtype=torch.int64, device=device),
        }

    def update(
        self, state: State, epoch: Tensor, loss: Tensor, accuracy: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Keep epochs best in all that is watched; stop after ``patience`` best in none."""
        accurate, low = accuracy >= state["accuracy"], loss <= state["loss"]
        state["accuracy"].copy_(torch.maximum(state["accuracy"], accuracy))
        state["loss"].copy_(torch.minimum(state["loss"], loss))
        if self.watch == "accuracy":
            low = accurate
        elif self.watch == "loss":
            accurate = low
        state["waited"].copy_(torch.where(accurate | low, 0, state["waited"] + 1))
        return accurate & low, state["waited"] >= self.patience
