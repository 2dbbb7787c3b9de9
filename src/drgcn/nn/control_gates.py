"""Gates that look at no data: what they gain is not due to dimensional reweighting.

A sigmoid gate halves its input at the start of training and so changes the effective step
size. These two do the same without the block, and stand beside it wherever a gain is claimed.
"""

from __future__ import annotations

import torch
from torch import Tensor


class StaticGate(torch.nn.Module):
    """A learnable gate per feature dimension that sees no data: ``s = sigmoid(logits)``."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.empty(in_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        torch.nn.init.zeros_(self.logits)

    def from_mean(self, mean: Tensor) -> Tensor:
        """The gate, whatever the mean."""
        return torch.sigmoid(self.logits).to(mean.dtype).expand_as(mean)


class ConstantGate(torch.nn.Module):
    """One half for every feature dimension: nothing but a smaller step."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.in_channels = in_channels

    def from_mean(self, mean: Tensor) -> Tensor:
        """The gate, whatever the mean."""
        return torch.full_like(mean, 0.5)
