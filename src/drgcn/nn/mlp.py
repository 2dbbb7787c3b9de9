"""MLP and Dr-MLP: the baseline without edges, as Kipf's ``dense`` model."""

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
    LayerInput,
    Norm,
    Reweight,
    check_rates,
    check_sizes,
    dropout,
    gated_product,
)
from drgcn.nn.graph import NodeGroups
from drgcn.nn.sparse import SparseMatrix


class MLP(FullBatchModel):
    r"""The multi-layer perceptron that `"Semi-Supervised Classification with Graph
    Convolutional Networks" <https://arxiv.org/abs/1609.02907>`_ compares with, plain or with
    dimensional reweighting in front of every layer:

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
        norm (str, optional): :obj:`"batch"`, :obj:`"layer"`, :obj:`"graph"` or :obj:`"pair"`,
            at the Dr position. (default: :obj:`None`)
        reweight (str, optional): :obj:`"dr"` for the block, :obj:`"static"` and
            :obj:`"constant"` for its controls. (default: :obj:`None`)

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
        self.inputs = torch.nn.ModuleList(
            LayerInput(width, norm=norm, reweight=reweight) for width in widths[:-1]
        )
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
        return super().forward(x, edge_index, batch)

    def run_layers(self, x: Features, matrix: None, groups: NodeGroups | None) -> Iterator[Layer]:
        """Run the layers one after the other."""
        for number, (enter, weight) in enumerate(zip(self.inputs, self.weights, strict=True), 1):
            layer_input, s = enter(x, groups)
            # Since dropout(S x) = S dropout(x), the gate is folded into the weights instead.
            h = dropout(layer_input, self.dropout, self.training)
            out = gated_product(h, weight, s, groups)
            x = out if number == len(self.weights) else F.relu(out)
            yield layer_input, s, x
