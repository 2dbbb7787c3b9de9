"""The convolution with a Chebyshev polynomial of the graph Laplacian."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.inits import glorot

from drgcn.nn.gated_product import gated_product
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.spmm import spmm


class ChebyshevConvolution(torch.nn.Module):
    r"""The layer :math:`\sum_{k=0}^K T_k(\tilde{\mathbf{L}}) \mathbf{X} \mathbf{S} \mathbf{W}_k`,
    without a bias.

    Features meet the weights of all orders in one product, and the sum over orders is taken by
    Clenshaw's recurrence: :math:`K` sparse products as wide as the output, where the recurrence
    of :math:`T_k` itself would take them as wide as the input.

    Args:
        in_channels (int): Size of each input node.
        out_channels (int): Size of each output node.
        K (int): Highest order.
    """

    def __init__(self, in_channels: int, out_channels: int, K: int) -> None:  # noqa: N803
        super().__init__()
        if K < 0:
            raise ValueError(f"ChebyshevConvolution expects an order K >= 0; found {K}.")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.K = K
        # Orders stand side by side: the weights of all of them are then one matrix as they lie.
        self.weight = torch.nn.Parameter(torch.empty(in_channels, K + 1, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for order in self.weight.unbind(1):
            glorot(order)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        laplacian: SparseMatrix,
        s: Tensor | None = None,
        groups: NodeGroups | None = None,
    ) -> Tensor:
        """Transforms, then propagates; ``s`` scales the features that meet the weights."""
        terms = gated_product(x, self.weight.flatten(1), s, groups).unflatten(1, (self.K + 1, -1))
        *lower, last = terms.unbind(1)
        if not lower:
            return last
        # b_k = Y_k + 2 L b_{k+1} - b_{k+2}, and the sum is Y_0 + L b_1 - b_2.
        following, now = None, last
        for term in reversed(lower[1:]):
            rest = term if following is None else term - following
            following, now = now, torch.add(rest, spmm(laplacian, now), alpha=2)
        out = lower[0] + spmm(laplacian, now)
        return out if following is None else out - following

    def extra_repr(self) -> str:
        """Widths and order, as in PyG."""
        return f"{self.in_channels}, {self.out_channels}, K={self.K}"
