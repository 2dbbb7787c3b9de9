"""Batch norm that remembers nothing."""

from __future__ import annotations

import torch
from torch import Tensor


class StatelessBatchNorm(torch.nn.Module):
    r"""The map :math:`(\mathbf{x} - \mathrm{mean}) / \sqrt{\mathrm{var} + \epsilon} +
    \boldsymbol{\beta}` with mean and variance of the nodes at hand, in training and in evaluation.

    In full-batch training these are the same nodes, so there is nothing to estimate over time.

    Args:
        in_channels (int): Number of feature dimensions.
        eps (float, optional): Added to the variance. (default: :obj:`1e-3`, that of TensorFlow)
    """

    def __init__(self, in_channels: int, eps: float = 1e-3) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.eps = eps
        self.bias = torch.nn.Parameter(torch.empty(in_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        torch.nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Normalises every feature dimension over the nodes."""
        variance, mean = torch.var_mean(x, dim=0, correction=0)
        return (x - mean) * torch.rsqrt(variance + self.eps) + self.bias

    def extra_repr(self) -> str:
        """Width and epsilon, as in torch."""
        return f"{self.in_channels}, eps={self.eps}"
