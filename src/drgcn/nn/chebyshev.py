"""Chebyshev networks as Kipf's ``gcn_cheby`` computes them, plain or reweighted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.nn.argument_checks import check_rates, check_sizes
from drgcn.nn.chebyshev_convolution import ChebyshevConvolution
from drgcn.nn.features import Features, map_values
from drgcn.nn.full_batch_model import FullBatchModel
from drgcn.nn.laplacian import scaled_laplacian
from drgcn.nn.layer_input import LayerInput, Norm, Reweight
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.reweighted_model import Layer
from drgcn.nn.sparse_matrix import SparseMatrix


class ChebNet(FullBatchModel):
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

    @staticmethod
    def matrix(edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> SparseMatrix:
        """The scaled Laplacian. It solves an eigenvalue problem, so that ``prepare`` is worth its
        line in a loop."""
        # NOTE[DIFF] Kipf's code knows one graph. The Laplacian of a batch is scaled by the largest
        # eigenvalue of all its graphs: the filters are the same for each, but scores of a graph
        # whose own eigenvalue is smaller depend on the graphs beside it.
        return scaled_laplacian(edge_index, num_nodes, dtype=dtype)

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """The weights of the first layer."""
        return self.convs[0].parameters()

    def run_layers(
        self, x: Features, matrix: SparseMatrix, groups: NodeGroups | None
    ) -> Iterator[Layer]:
        """Every layer in turn."""
        for number, (enter, conv) in enumerate(zip(self.inputs, self.convs, strict=True), 1):
            layer_input, s = enter(x, groups)
            # Since dropout(S x) = S dropout(x), the gate can wait for the weights.
            h = map_values(lambda v: F.dropout(v, self.dropout, self.training), layer_input)
            out = conv(h, matrix, s, groups)
            x = out if number == len(self.convs) else F.relu(out)
            yield layer_input, s, x
