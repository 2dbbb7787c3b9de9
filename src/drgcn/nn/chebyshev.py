"""Chebyshev networks as Kipf's ``gcn_cheby`` computes them, plain or reweighted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from drgcn.nn.argument_checks import check_rates, check_sizes
from drgcn.nn.chebyshev_convolution import ChebyshevConvolution
from drgcn.nn.features import Features, as_features, compress, map_values
from drgcn.nn.laplacian import scaled_laplacian
from drgcn.nn.layer_input import LayerInput, Norm, Reweight
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.sparse_matrix import SparseMatrix


class ChebNet(torch.nn.Module):
    r"""The network of `"Convolutional Neural Networks on Graphs with Fast Localized Spectral
    Filtering" <https://arxiv.org/abs/1606.09375>`_ as Kipf's code has it, plain or with
    dimensional reweighting in front of every layer:

    .. math::
        \mathbf{H}^{l} = \mathrm{ReLU}\Big(\sum_{k=0}^{K} T_k(\tilde{\mathbf{L}}) \,
        \mathrm{dropout}(\mathbf{H}^{l-1} \mathbf{S}^{l}) \mathbf{W}_k^{l}\Big), \quad
        \mathbf{H}^0 = \mathbf{X},

    with :math:`\tilde{\mathbf{L}}` of :func:`~drgcn.nn.scaled_laplacian`, a linear last layer, no
    biases, and one dropout mask for all orders. Kipf's settings: hidden width 16, ``K=3``, Adam
    with learning rate 0.01, weight decay 5e-4, 200 epochs.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each hidden node.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of layers. (default: :obj:`2`)
        K (int, optional): Highest order, as in Kipf's code. :class:`torch_geometric.nn.ChebConv`
            counts the polynomials instead, and calls this :math:`K + 1`. (default: :obj:`3`)
        dropout (float, optional): Dropout on the input of every layer; on sparse features,
            of the non-zeros. (default: :obj:`0.5`)
        norm (str, optional): :obj:`"batch"`, :obj:`"layer"`, :obj:`"graph"` or :obj:`"pair"`,
            at the Dr position. (default: :obj:`None`)
        reweight (str, optional): :obj:`"dr"` for the block, :obj:`"static"` and
            :obj:`"constant"` for its controls. (default: :obj:`None`)

    Example:
        >>> model = ChebNet(1433, 16, 7, reweight="dr")
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
        K: int = 3,  # noqa: N803
        dropout: float = 0.5,
        norm: Norm | None = None,
        reweight: Reweight | None = None,
    ) -> None:
        super().__init__()
        check_sizes("ChebNet", in_channels=in_channels, hidden_channels=hidden_channels)
        check_sizes("ChebNet", out_channels=out_channels, num_layers=num_layers)
        check_rates("ChebNet", dropout=dropout)
        if isinstance(K, bool) or not isinstance(K, int) or K < 0:
            raise ValueError(f"ChebNet expects an order K >= 0; found {K!r}.")
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.dropout = dropout
        self.inputs = torch.nn.ModuleList(
            LayerInput(width, norm=norm, reweight=reweight) for width in widths[:-1]
        )
        self.convs = torch.nn.ModuleList(
            ChebyshevConvolution(a, b, K) for a, b in pairwise(widths)
        )

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for module in (*self.inputs, *self.convs):
            module.reset_parameters()

    @staticmethod
    def prepare(data: Data) -> tuple[Features, SparseMatrix, NodeGroups | None]:
        """What ``forward`` takes, computed once: features as sparse as they are, the scaled
        Laplacian, and the graph of each node where ``data`` is a batch of several."""
        # NOTE[DIFF] Kipf's code knows one graph. The Laplacian of a batch is scaled by the largest
        # eigenvalue of all its graphs: the filters are the same for each, but scores of a graph
        # whose own eigenvalue is smaller depend on the graphs beside it.
        laplacian = scaled_laplacian(data.edge_index, data.num_nodes, dtype=data.x.dtype)
        return compress(data.x), laplacian, NodeGroups.of(data.get("batch"), data.num_nodes)

    def regularized_parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters under L2: the first layer's weights, and everything in the blocks."""
        # NOTE[PAPER] Dr for Chebyshev networks is not in the paper; blocks are decayed as in GCN.
        yield from self.convs[0].parameters()
        for module in self.inputs:
            yield from module.gate_parameters()  # type: ignore[operator]

    def forward(
        self,
        x: Tensor | SparseMatrix,
        edge_index: Tensor | SparseMatrix,
        batch: Tensor | NodeGroups | None = None,
    ) -> Tensor:
        """Class scores of every node.

        Args:
            x (Tensor or SparseMatrix): Node features.
            edge_index (Tensor or SparseMatrix): The scaled Laplacian, or edges; these solve an
                eigenvalue problem at every call, so ``prepare`` is worth its line in a loop.
            batch (Tensor or NodeGroups, optional): The graph of each node; every graph then has
                its own reweighting vector. (default: one graph)
        """
        *_, (_, _, out) = self.layers(x, edge_index, batch)
        return out

    def layers(
        self,
        x: Tensor | SparseMatrix,
        edge_index: Tensor | SparseMatrix,
        batch: Tensor | NodeGroups | None = None,
    ) -> Iterator[tuple[Features, Tensor | None, Tensor]]:
        """For every layer its input, its reweighting vector, and its output."""
        x = as_features(x)
        groups = NodeGroups.of(batch, x.shape[0])
        laplacian = (
            scaled_laplacian(edge_index, x.shape[0], dtype=x.dtype)
            if isinstance(edge_index, Tensor)
            else edge_index
        )
        for number, (enter, conv) in enumerate(zip(self.inputs, self.convs, strict=True), 1):
            layer_input, s = enter(x, groups)
            # Since dropout(S x) = S dropout(x), the gate can wait for the weights.
            h = map_values(lambda v: F.dropout(v, self.dropout, self.training), layer_input)
            out = conv(h, laplacian, s, groups)
            x = out if number == len(self.convs) else F.relu(out)
            yield layer_input, s, x
