"""The graph convolution of Kipf and Welling as the paper's code base computes it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.inits import glorot

from drgcn.nn.gated_product import gated_product
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.spmm import spmm


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

    def forward(
        self,
        x: Tensor | SparseMatrix,
        adj: SparseMatrix,
        s: Tensor | None = None,
        groups: NodeGroups | None = None,
    ) -> Tensor:
        """Transforms, then propagates; ``s`` scales the features that meet the weights."""
        return spmm(adj, gated_product(x, self.weight, s, groups))

    def extra_repr(self) -> str:
        """Widths, as in PyG."""
        return f"{self.in_channels}, {self.out_channels}"
