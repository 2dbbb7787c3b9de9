"""Stopping rules: when a seed stops training, and which of its epochs is tested; and schedules of
the learning rate.

A rule sees the validation loss and accuracy of all seeds after every epoch, as tensors
``[seeds]``, and answers with tensors, so that an epoch never waits for the host. Accuracy stands
for the metric of the task; of an error it is the negative, so that more is always better.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, get_args

import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.training.inputs import checked_count, checked_rate, name_of, reason_of, shown

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


@dataclass(frozen=True)
class StepwiseDecay:
    """Learning-rate schedule that takes off the same share of the initial rate every few epochs.

    Args:
        every: Epochs between two cuts.
        share: Share that each cut takes off.
    """

    every: int
    share: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", checked_count(self.every, "every"))
        if checked_rate(self.share, "share") > 1:
            raise InputError(f"Expected share from 0 to 1; found {self.share}.")

    def factor(self, epoch: Tensor) -> Tensor:
        """Return the factor of the initial learning rate in an epoch, counted from 1."""
        cuts = (epoch - 1) // self.every
        return (1 - self.share * cuts).clamp(min=0.0)


# A schedule of ours, or one of torch's as a function of an optimiser.
Schedule = StepwiseDecay | Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]


_SCHEDULES: Final = (
    "Give StepwiseDecay(40), or a function of an optimiser, such as partial(CosineAnnealingLR, "
    "T_max=200)."
)


def learning_rates(schedule: Schedule, lr: float, epochs: int) -> Tensor:
    """Return the learning rate of every epoch ``[epochs]``."""
    if isinstance(schedule, StepwiseDecay):
        return lr * schedule.factor(torch.arange(1, epochs + 1))
    ours = isinstance(schedule, type) and issubclass(schedule, StepwiseDecay)
    made = isinstance(schedule, torch.optim.lr_scheduler.LRScheduler)
    if ours or made or not callable(schedule):
        raise InputError(
            f"Expected a schedule that is made for every network; found {shown(schedule)}. "
            f"{_SCHEDULES}"
        )
    try:
        rates = _rates_of(schedule, lr, epochs)
    except InputError:
        raise
    except Exception as error:  # a schedule of anyone's may raise anything
        raise InputError(
            f"Expected a schedule of {epochs:,} epochs; {name_of(schedule)} raised "
            f"{reason_of(error)}. {_SCHEDULES}"
        ) from None
    wrong = next((rate for rate in rates if not 0 <= rate < math.inf), None)
    if wrong is not None:
        raise InputError(
            f"Expected learning rates of zero or more; {name_of(schedule)} makes {wrong}. "
            f"{_SCHEDULES}"
        )
    return torch.tensor(rates)


def _rates_of(make_scheduler: Callable[..., Any], lr: float, epochs: int) -> list[float]:
    """Step one of torch's schedulers, on an optimiser of nothing."""
    stand_in = torch.optim.SGD([torch.zeros(1)], lr=lr, momentum=0.5)
    (group,) = stand_in.param_groups
    scheduler = make_scheduler(stand_in)
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise InputError(
            "Expected a schedule of the epoch alone; ReduceLROnPlateau looks at results, "
            "which differ between the networks of a pass."
        )
    rates = [float(group["lr"])]
    while len(rates) < epochs:
        stand_in.step()
        scheduler.step()
        rates.append(float(group["lr"]))
    if group["momentum"] != 0.5:
        raise InputError(
            f"Expected a schedule of the learning rate alone; {type(scheduler).__name__} changes "
            f"the momentum too. Turn that off, as in cycle_momentum=False."
        )
    return rates
