"""The learnable graph convolution of LGCN."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.inits import zeros

from drgcn.nn.lgcn_neighbors import LargestNeighbors


class LearnableGraphConvolution(torch.nn.Module):
    r"""The layer of `"Large-Scale Learnable Graph Convolutional Networks"
    <https://arxiv.org/abs/1808.03965>`_ (LGCL) as its authors' code has it.

    For every feature, a node's own value and the :math:`k` largest among its neighbours, weighted
    by the adjacency matrix, stand in a row of :math:`k + 1` places. Two 1-D convolutions without
    an activation make one vector of it, the first with a bias, and a batch norm with the
    statistics of the nodes at hand ends the layer. Dropout acts in front of both convolutions.

    Values below zero never enter, but for the node's own: in the authors' dense product all other
    nodes of the graph compete as zeros.

    Args:
        in_channels (int): Size of each input node.
        out_channels (int): Size of each output node.
        k (int): How many neighbours' values are taken.
        dropout (float, optional): Dropout in front of both convolutions. (default: :obj:`0.0`)
    """

    def __init__(self, in_channels: int, out_channels: int, k: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.k = k
        self.dropout = dropout
        self.middle = (in_channels + out_channels) // 2
        # Kernels [width * in, out], the place in the row first.
        self.kernel = (k + 1) // 2 + 1
        self.weight1 = torch.nn.Parameter(torch.empty(self.kernel, in_channels, self.middle))
        self.bias1 = torch.nn.Parameter(torch.empty(self.middle))
        # What the first leaves, the second takes whole.
        self.weight2 = torch.nn.Parameter(torch.empty(k // 2 + 1, self.middle, out_channels))
        self.norm = torch.nn.BatchNorm1d(out_channels, eps=1e-3, track_running_stats=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for weight in (self.weight1, self.weight2):
            # TensorFlow's Xavier: both fans count the width of the kernel.
            limit = (6 / (weight.size(0) * (weight.size(1) + weight.size(2)))) ** 0.5
            torch.nn.init.uniform_(weight, -limit, limit)
        zeros(self.bias1)
        self.norm.reset_parameters()

    def forward(self, x: Tensor, graph: LargestNeighbors) -> Tensor:
        """Ranks the neighbours of every node, then convolves.

        Args:
            x (Tensor): Node features ``[nodes, in_channels]``, reweighted.
            graph (LargestNeighbors): The adjacency matrix.
        """
        rows = torch.cat([x[:, None], graph.select(x, self.k)], dim=1)  # [nodes, k + 1, in]
        rows = F.dropout(rows, self.dropout, self.training)
        h = rows.flatten(1) @ self._sliding() + self.bias1.repeat(self.k // 2 + 1)
        h = F.dropout(h, self.dropout, self.training)
        return self.norm(h @ self.weight2.flatten(0, 1))

    def _sliding(self) -> Tensor:
        """The first convolution as one matrix ``[(k + 1) * in, places * middle]``: every place
        of its output is the kernel moved on by one. Torch's own convolution takes many seeds at
        once as groups, and that is much slower."""
        moved = [
            F.pad(self.weight1.flatten(0, 1), (0, 0, i * self.in_channels, after))
            for i in range(self.k // 2 + 1)
            for after in [(self.k // 2 - i) * self.in_channels]
        ]
        return torch.cat(moved, dim=1)

    def extra_repr(self) -> str:
        """Widths and the number of neighbours."""
        return f"{self.in_channels}, {self.out_channels}, k={self.k}"
