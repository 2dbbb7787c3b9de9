"""Batch norm for batches in which some rows do not count."""

from __future__ import annotations

import torch
from torch import Tensor


class WeightedBatchNorm(torch.nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` with statistics over rows of weight one.

    Sampled batches have a fixed number of places, and a node with few neighbours leaves some of
    them empty: those have weight zero.
    """

    def forward(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """The normalised rows.

        Args:
            x (Tensor): Rows ``[n, d]``.
            weight (Tensor, optional): Which rows count ``[n]``. (default: all)
        """
        if weight is None or not self.training:
            return super().forward(x)
        weight = weight.to(x.dtype)
        count = weight.sum()
        share = weight / count.clamp(min=1)
        mean = share @ x
        variance = share @ (x - mean).square()
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            momentum = 0.1 if self.momentum is None else self.momentum
            self.running_mean.mul_(1 - momentum).add_(momentum * mean)
            unbiased = variance * count / (count - 1).clamp(min=1)
            self.running_var.mul_(1 - momentum).add_(momentum * unbiased)
        out = (x - mean) * torch.rsqrt(variance + self.eps)
        return out * self.weight + self.bias
