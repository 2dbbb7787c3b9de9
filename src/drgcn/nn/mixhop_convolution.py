"""The convolution that mixes neighbours of several distances."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.nn.inits import glorot

from drgcn.nn.gated_product import gated_product
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.spmm import spmm


class MixHopConvolution(torch.nn.Module):
    r"""The layer :math:`\big\Vert_j \, \tilde{\mathbf{A}}^j \mathbf{X} \mathbf{S} \mathbf{W}_j`,
    powers of the adjacency matrix side by side, without a bias.

    Powers share their products: for three of them it is :math:`[\mathbf{Y}_0 \Vert
    \tilde{\mathbf{A}} [\mathbf{Y}_1 \Vert \tilde{\mathbf{A}} \mathbf{Y}_2]]` with
    :math:`\mathbf{Y}_j = \mathbf{X} \mathbf{S} \mathbf{W}_j` from one product with all weights.

    Args:
        in_channels (int): Size of each input node.
        out_channels (sequence of int): Width of each power, from power 0 on; zero leaves one out.
    """

    def __init__(self, in_channels: int, out_channels: Sequence[int]) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = tuple(out_channels)
        if sum(self.out_channels) < 1 or min(self.out_channels) < 0:
            raise ValueError(
                f"{type(self).__name__} expects one width per power, none negative and not all "
                f"zero; found {self.out_channels}."
            )
        self.weight = torch.nn.Parameter(torch.empty(in_channels, sum(self.out_channels)))
        MixHopConvolution.reset_parameters(self)  # a subclass has yet to make its parameters

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for kernel in self.weight.split(self.out_channels, dim=1):
            glorot(kernel)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        adj: SparseMatrix,
        s: Tensor | None = None,
        groups: NodeGroups | None = None,
    ) -> Tensor:
        """Transforms, then propagates; ``s`` scales the features that meet the weights."""
        transformed = gated_product(x, self.weight, s, groups)
        *nearer, out = transformed.split(self.out_channels, dim=1)
        for block in reversed(nearer):
            farther = spmm(adj, out) if out.size(1) else out
            out = torch.cat([block, farther], dim=1)
        return out

    def penalty(self) -> Tensor:
        """Sum of squares plus the sum of the lengths of the columns, for a coefficient of one."""
        # Torch takes the gradient of a column of zeros to be zero.
        columns = torch.linalg.vector_norm(self.weight, dim=0)
        return self.weight.square().sum() + columns.sum()

    def extra_repr(self) -> str:
        """Widths."""
        return f"{self.in_channels}, {self.out_channels}"
