"""Which training nodes every step of an epoch looks at."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.streams import random_uniform, step_key


@dataclass(frozen=True)
class MiniBatches:
    """Batches of equal size, shuffled anew for every seed and epoch.

    What is left over after the last whole batch has no turn in that epoch, as in the code bases
    of FastGCN and AS-GCN; fewer nodes than one batch are one batch.

    Attributes:
        nodes: How many nodes there are to train on.
        batch_size: Nodes in each step, if there are as many.
    """

    nodes: int
    batch_size: int

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return max(self.nodes // self.batch_size, 1)

    @property
    def used_per_step(self) -> int:
        """Nodes in each step."""
        return min(self.batch_size, self.nodes)

    def order(self, keys: Tensor, epoch: Tensor) -> Tensor:
        """The places of the nodes in each step ``[steps, seeds, batch]``, from one key per
        seed."""
        numbers = random_uniform(step_key(keys, epoch), self.nodes, torch.float64)
        used = min(self.steps * self.batch_size, self.nodes)
        return numbers.argsort(1)[:, :used].unflatten(1, (self.steps, -1)).transpose(0, 1)
