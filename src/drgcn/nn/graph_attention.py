"""The attention layer of GAT as its authors' code computes it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.inits import glorot, zeros

from drgcn.nn.attention import attention_coefficients
from drgcn.nn.features import Features
from drgcn.nn.gated_product import gated_product
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.sparse_pattern import SparsePattern
from drgcn.nn.spmm import spmm


class GraphAttention(torch.nn.Module):
    r"""The graph attention layer from `"Graph Attention Networks"
    <https://arxiv.org/abs/1710.10903>`_. For each head, with :math:`d` for a dropout mask,

    .. math::
        \mathbf{z}_i &= d(\mathbf{x}_i) \mathbf{S} \mathbf{W}, \quad
        \alpha_{ij} = \mathrm{softmax}_j \, \mathrm{LeakyReLU}(\mathbf{a}_t^\top \mathbf{z}_i
        + b_t + \mathbf{a}_s^\top \mathbf{z}_j + b_s) \\
        \mathbf{x}'_i &= \sum_j d(\alpha_{ij}) \, d(\mathbf{z}_j) + \mathbf{b}.

    It differs from :class:`torch_geometric.nn.GATConv` in what the authors' code does: every
    head drops its own input, transformed features are dropped too, scores have biases, and the
    residual is a map with a bias of the dropped input. It also takes sparse features, and a gate.

    Args:
        in_channels (int): Size of each input node.
        out_channels (int): Size of each output node, per head.
        heads (int, optional): Number of heads. (default: :obj:`1`)
        concat (bool, optional): Concatenate the heads, or else average them.
            (default: :obj:`True`)
        negative_slope (float, optional): Slope of LeakyReLU. (default: :obj:`0.2`)
        dropout (float, optional): Rate of all three masks. (default: :obj:`0.0`)
        residual (bool, optional): Add a linear map of the input. (default: :obj:`False`)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        *,
        residual: bool = False,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.negative_slope = negative_slope
        self.dropout = dropout

        def empty(*shape: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.empty(heads, *shape))

        self.weight = empty(in_channels, out_channels)
        self.att_src, self.att_src_bias = empty(out_channels, 1), empty(1)
        self.att_dst, self.att_dst_bias = empty(out_channels, 1), empty(1)
        self.bias = empty(out_channels)
        self.res_weight = empty(in_channels, out_channels) if residual else None
        self.res_bias = empty(out_channels) if residual else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for weight in (self.weight, self.att_src, self.att_dst, self.res_weight):
            glorot(weight)
        for bias in (self.att_src_bias, self.att_dst_bias, self.bias, self.res_bias):
            zeros(bias)

    def forward(
        self,
        x: Features,
        pattern: SparsePattern,
        s: Tensor | None = None,
        groups: NodeGroups | None = None,
    ) -> Tensor:
        """Transforms every head's input, then averages over each node's neighbours.

        Args:
            x (Tensor or SparseMatrix): Node features.
            pattern (SparsePattern): Neighbourhoods, each node its own neighbour.
            s (Tensor, optional): The gate of the features, shared by all heads.
            groups (NodeGroups, optional): The graph of each node, if ``s`` differs by graph.
        """
        x = self._drop_per_head(x)
        z = self._transform(x, self.weight, s, groups)  # [heads, nodes, out]
        target = (z @ self.att_dst).squeeze(-1) + self.att_dst_bias
        source = (z @ self.att_src).squeeze(-1) + self.att_src_bias
        alpha = attention_coefficients(target, source, pattern, self.negative_slope)
        alpha = F.dropout(alpha, self.dropout, self.training)
        z = F.dropout(z, self.dropout, self.training)
        out = spmm(SparseMatrix(pattern, alpha), z) + self.bias[:, None]
        if self.res_weight is not None and self.res_bias is not None:
            out = out + self._transform(x, self.res_weight, s, groups) + self.res_bias[:, None]
        return out.transpose(0, 1).flatten(1) if self.concat else out.mean(0)

    def _drop_per_head(self, x: Features) -> Features:
        """The input as every head sees it: with a first axis for heads if they differ."""
        if not self.training or self.dropout == 0:
            return x
        values = x.values if isinstance(x, SparseMatrix) else x
        values = F.dropout(values.expand(self.heads, *values.shape), self.dropout)
        return x.with_values(values) if isinstance(x, SparseMatrix) else values

    def _transform(
        self, x: Features, weight: Tensor, s: Tensor | None, groups: NodeGroups | None
    ) -> Tensor:
        per_head = x.values.dim() == 2 if isinstance(x, SparseMatrix) else x.dim() == 3
        if per_head:
            return gated_product(x, weight, s, groups)
        wide = weight.transpose(0, 1).flatten(1)  # [in, heads * out]
        product = gated_product(x, wide, s, groups)
        return product.unflatten(1, (self.heads, self.out_channels)).transpose(0, 1)

    def extra_repr(self) -> str:
        """Widths and heads, as in PyG."""
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"
