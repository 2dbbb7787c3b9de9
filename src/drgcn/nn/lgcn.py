"""LGCN as its authors compute it, on the whole graph, plain or reweighted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.nn.adjacency import normalized_adjacency
from drgcn.nn.argument_checks import check_rates, check_sizes
from drgcn.nn.features import Features, map_values
from drgcn.nn.full_batch_model import FullBatchModel
from drgcn.nn.gated_product import gated_product
from drgcn.nn.graph_convolution import GraphConvolution
from drgcn.nn.layer_input import LayerInput, Norm, Reweight
from drgcn.nn.lgcn_convolution import LearnableGraphConvolution
from drgcn.nn.lgcn_neighbors import LargestNeighbors
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.reweighted_model import Layer
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.spmm import spmm


class LGCN(FullBatchModel):
    r"""The network of `"Large-Scale Learnable Graph Convolutional Networks"
    <https://arxiv.org/abs/1808.03965>`_ as its authors' code has it, plain or with dimensional
    reweighting in front of every layer:

    .. math::
        \mathbf{H}^{0} &= \tilde{\mathbf{A}} (\mathrm{dropout}(\mathbf{X} \mathbf{S}) \mathbf{W}
        + \mathbf{b}), \quad
        \mathbf{H}^{l} = \mathbf{H}^{l-1} \, \Vert \, \mathrm{LGCL}(\mathbf{H}^{l-1}
        \mathbf{S}^{l}), \\
        \mathbf{Y} &= \tilde{\mathbf{A}} (\mathrm{dropout}(\mathbf{H}^{L} \mathbf{S}^{L+1})
        \mathbf{W}' + \mathbf{b}'),

    with LGCL of :class:`LearnableGraphConvolution`. Nothing is activated. The authors' settings
    for Cora: ``LGCN(1433, 32, 7)``, their Nadam with learning rate 0.1, weight decay 5e-4 on
    everything. They train on one sub-graph, drawn once and nearly as large as Cora; here training
    sees the whole graph.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each node behind the first layer.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of LGCLs between the first layer and the last.
            (default: :obj:`2`)
        growth (int, optional): Columns that each LGCL adds. (default: :obj:`8`)
        k (int, optional): How many neighbours' values an LGCL takes. (default: :obj:`8`)
        dropout (float, optional): Dropout on the input of every layer, and twice in each LGCL;
            on sparse features, of the non-zeros. (default: :obj:`0.84`)
        norm (str, optional): :obj:`"batch"`, :obj:`"layer"`, :obj:`"graph"` or :obj:`"pair"`,
            at the Dr position. (default: :obj:`None`)
        reweight (str, optional): :obj:`"dr"` for the block, :obj:`"static"` and
            :obj:`"constant"` for its controls. (default: :obj:`None`)

    Example:
        >>> model = LGCN(1433, 32, 7, reweight="dr")
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> model(torch.rand(3, 1433), edge_index).shape
        torch.Size([3, 7])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        growth: int = 8,
        k: int = 8,
        dropout: float = 0.84,
        norm: Norm | None = None,
        reweight: Reweight | None = None,
    ) -> None:
        super().__init__()
        check_sizes("LGCN", in_channels=in_channels, hidden_channels=hidden_channels)
        check_sizes("LGCN", out_channels=out_channels, num_layers=num_layers)
        check_sizes("LGCN", growth=growth, k=k)
        check_rates("LGCN", dropout=dropout)
        widths = [hidden_channels + growth * layer for layer in range(num_layers + 1)]
        self.dropout = dropout
        # NOTE[PAPER] Dr for LGCN is not in the paper. Gates are positive, so the order of a
        # node's neighbours is the same with them, and an LGCL sees its whole input scaled.
        self.inputs = torch.nn.ModuleList(
            LayerInput(width, norm=norm, reweight=reweight) for width in (in_channels, *widths)
        )
        # NOTE[DIFF] The authors' code also drops one entry in a thousand of the adjacency
        # matrix, which we do not.
        self.first = _BiasedConvolution(in_channels, hidden_channels)
        self.convs = torch.nn.ModuleList(
            LearnableGraphConvolution(width, growth, k, dropout) for width in widths[:-1]
        )
        # NOTE[DIFF] LGCN's text has a fully connected last layer, its code one that looks at
        # neighbours. The code made the published numbers.
        self.last = _BiasedConvolution(widths[-1], out_channels)

    @staticmethod
    def matrix(edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> LargestNeighbors:
        """The normalised adjacency matrix, laid out for ranking."""
        return LargestNeighbors.of(normalized_adjacency(edge_index, num_nodes, dtype=dtype))

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """All parameters of the layers, biases and batch norms included."""
        layers = torch.nn.ModuleList([self.first, *self.convs, self.last])
        return layers.parameters()

    def run_layers(
        self, x: Features, matrix: LargestNeighbors, groups: NodeGroups | None
    ) -> Iterator[Layer]:
        """Every layer in turn."""
        layer_input, s = self.inputs[0](x, groups)
        h = self.first(self._dropped(layer_input), matrix.matrix, s, groups)
        yield layer_input, s, h
        for enter, conv in zip(list(self.inputs)[1:-1], self.convs, strict=True):
            layer_input, s = enter(h, groups)
            scaled = layer_input
            if s is not None:
                scaled = layer_input * (s if groups is None else groups.spread(s))
            h = torch.cat([layer_input, conv(scaled, matrix)], dim=1)
            yield layer_input, s, h
        layer_input, s = self.inputs[-1](h, groups)
        yield layer_input, s, self.last(self._dropped(layer_input), matrix.matrix, s, groups)

    def _dropped(self, x: Features) -> Features:
        # Since dropout(S x) = S dropout(x), the gate can wait for the weights.
        return map_values(lambda v: F.dropout(v, self.dropout, self.training), x)


class _BiasedConvolution(GraphConvolution):
    """``A (X S W + b)``: the bias goes over the graph too."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        self.bias = torch.nn.Parameter(torch.empty(out_channels))
        self._reset_bias()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if hasattr(self, "bias"):
            self._reset_bias()

    def _reset_bias(self) -> None:
        limit = (3 / self.out_channels) ** 0.5  # TensorFlow's Xavier for a vector
        torch.nn.init.uniform_(self.bias, -limit, limit)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        adj: SparseMatrix,
        s: Tensor | None = None,
        groups: NodeGroups | None = None,
    ) -> Tensor:
        return spmm(adj, gated_product(x, self.weight, s, groups) + self.bias)
