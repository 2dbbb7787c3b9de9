"""How the learning rate changes from epoch to epoch."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class StepwiseDecay:
    """Takes the same share of the initial learning rate off every so many epochs.

    Args:
        every: Epochs between two cuts.
        share: What each takes off.
    """

    every: int
    share: float = 0.01

    def factor(self, epoch: Tensor) -> Tensor:
        """What the initial learning rate is multiplied by in an epoch, counted from 1."""
        cuts = (epoch - 1) // self.every
        return (1 - self.share * cuts).clamp(min=0.0)
