"""The graph convolution of Kipf and Welling as the paper's code base computes it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.inits import glorot

from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.spmm import spmm
from drgcn.nn.tall_product import tall_product
from drgcn.reweighting import fold


class GraphConvolution(torch.nn.Module):
    r"""The layer :math:`\tilde{\mathbf{A}} (\mathbf{X} \mathbf{S} \mathbf{W})`, without a bias.

    It differs from :class:`torch_geometric.nn.GCNConv` in taking sparse features, a matrix
    that is normalised once, and a gate that is folded into the weights.

    Args:
        in_channels (int): Size of each input node.
        out_channels (int): Size of each output node.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.weight = torch.nn.Parameter(torch.empty(in_channels, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        glorot(self.weight)

    def forward(self, x: Tensor | SparseMatrix, adj: SparseMatrix, s: Tensor | None) -> Tensor:
        """Transforms, then propagates; ``s`` scales the features that meet the weights."""
        weight = self.weight if s is None else fold(self.weight, s, dim=0)
        if isinstance(x, SparseMatrix):
            return spmm(adj, spmm(x, weight))
        return spmm(adj, tall_product(x, weight))

    def extra_repr(self) -> str:
        """Widths, as in PyG."""
        return f"{self.in_channels}, {self.out_channels}"
