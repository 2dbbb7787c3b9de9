"""Chebyshev networks as in Kipf's ``gcn_cheby``, plain or with dimensional reweighting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array, identity
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from torch import Tensor
from torch_geometric.nn.inits import glorot

from drgcn.errors import warn
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
)
from drgcn.nn.graph import NodeGroups, normalized_adjacency
from drgcn.nn.sparse import SparseMatrix, spmm

_LARGEST_DENSE = 256  # nodes up to which the exact eigenvalues of a dense matrix are fast
_BOUND = 2.0  # no eigenvalue of the normalised Laplacian is larger


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
        norm (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)
        reweight (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)

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
        self.inputs = layer_inputs(widths[:-1], norm=norm, reweight=reweight)
        self.convs = torch.nn.ModuleList(
            ChebyshevConvolution(a, b, K) for a, b in pairwise(widths)
        )

    @staticmethod
    def matrix(
        edge_index: Tensor,
        num_nodes: int,
        dtype: torch.dtype,
        edge_weight: Tensor | None = None,
    ) -> SparseMatrix:
        """Return the scaled Laplacian. This solves an eigenvalue problem: in a training loop, call
        :meth:`prepare` once."""
        # NOTE[DIFF] Kipf's code knows one graph. The Laplacian of a batch is scaled by the largest
        # eigenvalue of all its graphs: the filters are the same for each, but scores of a graph
        # whose own eigenvalue is smaller depend on the graphs beside it.
        return scaled_laplacian(edge_index, num_nodes, edge_weight=edge_weight, dtype=dtype)

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """Return the weights of the first layer."""
        return self.convs[0].parameters()

    def run_layers(
        self, x: Features, matrix: SparseMatrix, groups: NodeGroups | None
    ) -> Iterator[Layer]:
        """Run the layers one after the other."""
        for number, (enter, conv) in enumerate(zip(self.inputs, self.convs, strict=True), 1):
            layer_input, s = enter(x, groups)
            # Since dropout(S x) = S dropout(x), the gate is folded into the weights instead.
            h = dropout(layer_input, self.dropout, self.training)
            out = conv(h, matrix, s, groups)
            x = out if number == len(self.convs) else F.relu(out)
            yield layer_input, s, x


class ChebyshevConvolution(torch.nn.Module):
    r"""The layer :math:`\sum_{k=0}^K T_k(\tilde{\mathbf{L}}) \mathbf{X} \mathbf{S} \mathbf{W}_k`,
    without a bias.

    Features meet the weights of all orders in one product, and the sum over orders is taken by
    Clenshaw's recurrence: :math:`K` sparse products as wide as the output, where the recurrence
    of :math:`T_k` itself would take them as wide as the input.

    Args:
        in_channels (int): Size of each input node.
        out_channels (int): Size of each output node.
        K (int): Highest order.
    """

    def __init__(self, in_channels: int, out_channels: int, K: int) -> None:  # noqa: N803
        super().__init__()
        if K < 0:
            raise ValueError(f"ChebyshevConvolution expects an order K >= 0; found {K}.")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.K = K
        # Orders stand side by side: the weights of all of them are then one matrix as they lie.
        self.weight = torch.nn.Parameter(torch.empty(in_channels, K + 1, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        for order in self.weight.unbind(1):
            glorot(order)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        laplacian: SparseMatrix,
        s: Tensor | None = None,
        groups: NodeGroups | None = None,
    ) -> Tensor:
        """Transform, then propagate; ``s`` scales the features that meet the weights."""
        terms = gated_product(x, self.weight.flatten(1), s, groups).unflatten(1, (self.K + 1, -1))
        *lower, last = terms.unbind(1)
        if not lower:
            return last
        # b_k = Y_k + 2 L b_{k+1} - b_{k+2}, and the sum is Y_0 + L b_1 - b_2.
        following, now = None, last
        for term in reversed(lower[1:]):
            rest = term if following is None else term - following
            following, now = now, torch.add(rest, spmm(laplacian, now), alpha=2)
        out = lower[0] + spmm(laplacian, now)
        return out if following is None else out - following

    def extra_repr(self) -> str:
        """Widths and order, as in PyG."""
        return f"{self.in_channels}, {self.out_channels}, K={self.K}"


def scaled_laplacian(
    edge_index: Tensor,
    num_nodes: int,
    *,
    edge_weight: Tensor | None = None,
    lambda_max: float | None = None,
    dtype: torch.dtype = torch.float32,
) -> SparseMatrix:
    r"""The matrix :math:`\tilde{\mathbf{L}} = 2 \mathbf{L} / \lambda_{\max} - \mathbf{I}` with
    :math:`\mathbf{L} = \mathbf{I} - \mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}`, whose
    eigenvalues lie in :math:`[-1, 1]`.

    No self-loops are added, and those of the input are dropped. A node without neighbours keeps
    the row of :math:`\mathbf{I}` in :math:`\mathbf{L}`, as in Kipf's code and in PyG.

    Args:
        edge_index (Tensor): Edges ``[2, E]``.
        num_nodes (int): Number of nodes.
        edge_weight (Tensor, optional): Weight of each edge. (default: one)
        lambda_max (float, optional): Largest eigenvalue of :math:`\mathbf{L}`. (default:
            computed; for edges without their reverse, the bound 2)
        dtype (torch.dtype, optional): Data type of the result.
    """
    # NOTE[DIFF] Kipf's code keeps the few self-loops that Citeseer lists; here, as in every
    # matrix of this package, they are dropped.
    adj = normalized_adjacency(
        edge_index, num_nodes, edge_weight=edge_weight, self_loops=False, dtype=torch.float64
    )
    lambda_max = _largest_eigenvalue(adj) if lambda_max is None else lambda_max
    if not lambda_max > 0:
        raise ValueError(f"scaled_laplacian expects lambda_max > 0; found {lambda_max}.")
    nodes = torch.arange(num_nodes, device=adj.values.device)
    diagonal = adj.values.new_full((num_nodes,), 2 / lambda_max - 1)
    return SparseMatrix.from_coordinates(
        torch.cat([adj.pattern.row, nodes]),
        torch.cat([adj.pattern.col.long(), nodes]),
        torch.cat([adj.values * (-2 / lambda_max), diagonal]).to(dtype),
        (num_nodes, num_nodes),
    )


def _largest_eigenvalue(adj: SparseMatrix) -> float:
    """Return the largest eigenvalue of ``I - adj``, the same number at every call."""
    nodes = adj.shape[0]
    entries = (t.cpu().numpy() for t in (adj.values, adj.pattern.col, adj.pattern.crow))
    normalized = csr_array(tuple(entries), shape=adj.shape)
    if not nodes or abs(normalized - normalized.T).max() > 1e-9:
        return _BOUND
    if nodes <= _LARGEST_DENSE:
        return float(1 - np.linalg.eigvalsh(normalized.toarray())[0])
    # Not a constant vector: on a regular graph it is an eigenvector already, and the solver
    # would restart from random numbers of its own.
    start = np.random.default_rng(0).standard_normal(nodes)
    try:
        laplacian = identity(nodes, format="csr") - normalized
        return float(eigsh(laplacian, k=1, v0=start, return_eigenvectors=False)[0])
    except ArpackNoConvergence:
        warn(
            f"The largest eigenvalue of the Laplacian of {nodes} nodes was not found; the bound "
            f"{_BOUND} stands in for it."
        )
        return _BOUND
