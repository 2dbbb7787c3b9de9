"""Features that have been over the graph once already."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Propagated:
    """The product of a propagation matrix and features, computed once."""

    x: Tensor

    def to(self, device: torch.device | str) -> Propagated:
        """The same on another device."""
        return Propagated(self.x.to(device))
