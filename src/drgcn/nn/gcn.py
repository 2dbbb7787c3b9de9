"""GCN and Dr-GCN, trained on the whole graph, and the MLP that is the same without edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.inits import glorot

from drgcn.nn.base import (
    Features,
    FullBatchModel,
    Layer,
    Norm,
    Reweight,
    check_rates,
    check_sizes,
    dropout,
    gated_product,
    layer_inputs,
    map_values,
)
from drgcn.nn.graph import NodeGroups, normalized_adjacency
from drgcn.nn.sparse import SparseMatrix, spmm


class GCN(FullBatchModel):
    r"""The graph convolutional network of `"Semi-Supervised Classification with Graph
    Convolutional Networks" <https://arxiv.org/abs/1609.02907>`_, plain or with
    dimensional reweighting in front of every layer:

    .. math::
        \mathbf{H}^{l} = \mathrm{ReLU}(\tilde{\mathbf{A}} \, \mathrm{dropout}(\mathbf{H}^{l-1}
        \mathbf{S}^{l}) \mathbf{W}^{l}), \quad \mathbf{H}^0 = \mathbf{X},

    with a linear last layer and no biases. With ``pre_activation`` the ReLU stands in
    front of each layer instead of behind it.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each hidden node.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of layers. (default: :obj:`2`)
        dropout (float, optional): Dropout on the input of every layer; on sparse features,
            of the non-zeros. (default: :obj:`0.5`)
        norm (str, optional): :obj:`"batch"`, :obj:`"layer"`, :obj:`"graph"` or :obj:`"pair"`,
            at the Dr position. (default: :obj:`None`)
        reweight (str, torch.nn.Module or callable, optional): A name of
            :data:`drgcn.gates.GATES`, such as :obj:`"dr"`, a gate, or a function that makes one
            for a width. (default: :obj:`None`)
        pre_activation (bool, optional): Activate before each layer. (default: :obj:`False`)

    Example:
        >>> model = GCN(1433, 64, 7, reweight="dr")
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
        dropout: float = 0.5,
        norm: Norm | None = None,
        reweight: Reweight | None = None,
        pre_activation: bool = False,
    ) -> None:
        super().__init__()
        check_sizes("GCN", in_channels=in_channels, hidden_channels=hidden_channels)
        check_sizes("GCN", out_channels=out_channels, num_layers=num_layers)
        check_rates("GCN", dropout=dropout)
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.dropout = dropout
        self.pre_activation = pre_activation
        self.inputs = layer_inputs(widths[:-1], norm=norm, reweight=reweight)
        self.convs = torch.nn.ModuleList(GraphConvolution(a, b) for a, b in pairwise(widths))

    @staticmethod
    def matrix(
        edge_index: Tensor,
        num_nodes: int,
        dtype: torch.dtype,
        edge_weight: Tensor | None = None,
    ) -> SparseMatrix:
        """Return the normalised adjacency matrix."""
        return normalized_adjacency(edge_index, num_nodes, edge_weight=edge_weight, dtype=dtype)

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """Return the weights of the first layer."""
        return self.convs[0].parameters()

    def run_layers(
        self, x: Features, matrix: SparseMatrix, groups: NodeGroups | None
    ) -> Iterator[Layer]:
        """Run the layers one after the other."""
        for number, (enter, conv) in enumerate(zip(self.inputs, self.convs, strict=True), 1):
            layer_input, s = enter(x, groups)
            # Gates are positive, so relu(S x) = S relu(x) and dropout(S x) = S dropout(x):
            # the gate is folded into the weights instead.
            h = map_values(F.relu, layer_input) if self.pre_activation else layer_input
            h = dropout(h, self.dropout, self.training)
            out = conv(h, matrix, s, groups)
            x = out if self.pre_activation or number == len(self.convs) else F.relu(out)
            yield layer_input, s, x


class MLP(FullBatchModel):
    r"""The multi-layer perceptron that `"Semi-Supervised Classification with Graph
    Convolutional Networks" <https://arxiv.org/abs/1609.02907>`_ compares with (Kipf's ``dense``
    model), plain or with dimensional reweighting in front of every layer:

    .. math::
        \mathbf{H}^{l} = \mathrm{ReLU}(\mathrm{dropout}(\mathbf{H}^{l-1} \mathbf{S}^{l})
        \mathbf{W}^{l}), \quad \mathbf{H}^0 = \mathbf{X},

    with a linear last layer and no biases: :class:`~drgcn.nn.GCN` without its graph. Kipf's
    settings: hidden width 16, Adam with learning rate 0.01, weight decay 5e-4, 200 epochs.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each hidden node.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of layers. (default: :obj:`2`)
        dropout (float, optional): Dropout on the input of every layer; on sparse features,
            of the non-zeros. (default: :obj:`0.5`)
        norm (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)
        reweight (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)

    Example:
        >>> model = MLP(1433, 16, 7, reweight="dr")
        >>> model(torch.rand(3, 1433)).shape
        torch.Size([3, 7])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        dropout: float = 0.5,
        norm: Norm | None = None,
        reweight: Reweight | None = None,
    ) -> None:
        super().__init__()
        check_sizes("MLP", in_channels=in_channels, hidden_channels=hidden_channels)
        check_sizes("MLP", out_channels=out_channels, num_layers=num_layers)
        check_rates("MLP", dropout=dropout)
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.dropout = dropout
        self.inputs = layer_inputs(widths[:-1], norm=norm, reweight=reweight)
        self.weights = torch.nn.ParameterList(torch.empty(a, b) for a, b in pairwise(widths))
        for weight in self.weights:
            glorot(weight)  # the inputs have initialised themselves

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        for module in self.inputs:
            module.reset_parameters()  # type: ignore[operator]
        for weight in self.weights:
            glorot(weight)

    @staticmethod
    def matrix(
        edge_index: Tensor,
        num_nodes: int,
        dtype: torch.dtype,
        edge_weight: Tensor | None = None,
    ) -> None:
        """Return nothing: edges are not used."""

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """Return the weights of the first layer."""
        return [self.weights[0]]

    def forward(
        self,
        x: Tensor | SparseMatrix,
        edge_index: Tensor | None = None,
        batch: Tensor | NodeGroups | None = None,
    ) -> Tensor:
        """Return the class scores of every node; ``edge_index`` is taken so that graph models can
        be replaced by this one, and not used."""
        return super().forward(x, None, batch)

    def run_layers(self, x: Features, matrix: None, groups: NodeGroups | None) -> Iterator[Layer]:
        """Run the layers one after the other."""
        for number, (enter, weight) in enumerate(zip(self.inputs, self.weights, strict=True), 1):
            layer_input, s = enter(x, groups)
            # Since dropout(S x) = S dropout(x), the gate is folded into the weights instead.
            h = dropout(layer_input, self.dropout, self.training)
            out = gated_product(h, weight, s, groups)
            x = out if number == len(self.weights) else F.relu(out)
            yield layer_input, s, x


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
        """Reset all learnable parameters of the module."""
        glorot(self.weight)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        adj: SparseMatrix,
        s: Tensor | None = None,
        groups: NodeGroups | None = None,
    ) -> Tensor:
        """Transform, then propagate; ``s`` scales the features that meet the weights."""
        return spmm(adj, gated_product(x, self.weight, s, groups))

    def extra_repr(self) -> str:
        """Widths, as in PyG."""
        return f"{self.in_channels}, {self.out_channels}"
