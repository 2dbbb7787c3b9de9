"""The adaptive path layer of GeniePath: which neighbours, and how far."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.inits import glorot

from drgcn.nn.features import Features
from drgcn.nn.gated_product import gated_product
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.sparse_pattern import SparsePattern
from drgcn.nn.spmm import spmm


class AdaptivePath(torch.nn.Module):
    r"""The adaptive path layer from `"GeniePath: Graph Neural Networks with Adaptive Receptive
    Paths" <https://arxiv.org/abs/1802.00910>`_. Breadth is attention with a tanh inside,

    .. math::
        \alpha_{ij} = \mathrm{softmax}_j \, \mathbf{v}^\top \tanh(\mathbf{W}_s^\top \mathbf{x}_i +
        \mathbf{W}_d^\top \mathbf{x}_j), \quad
        \mathbf{b}_i = \tanh\Big(\mathbf{W}^\top \sum_j \alpha_{ij} \mathbf{x}_j\Big),

    and depth is a memory :math:`\mathbf{c}` with gates, as in an LSTM:

    .. math::
        \mathbf{c}'_i = \sigma(\mathbf{W}_f^\top \mathbf{b}_i) \odot \mathbf{c}_i +
        \sigma(\mathbf{W}_i^\top \mathbf{b}_i) \odot \tanh(\mathbf{W}_c^\top \mathbf{b}_i), \quad
        \mathbf{h}_i = \sigma(\mathbf{W}_o^\top \mathbf{b}_i) \odot \tanh(\mathbf{c}'_i).

    The lazy layer's gates see :math:`\mathbf{b}_i \, \Vert \, \mathbf{h}_i` of the layer before.
    PyG's example of GeniePath differs in its attention, which is that of
    :class:`torch_geometric.nn.GATConv`, and in gates that look back at :math:`\mathbf{h}` always.

    Args:
        in_channels (int): Size of each input node.
        out_channels (int): Size of breadth, memory and output.
        lazy (bool, optional): Let the gates see the last output too. (default: :obj:`False`)
    """

    def __init__(self, in_channels: int, out_channels: int, *, lazy: bool = False) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.lazy = lazy
        # Those who look, those who are looked at, and what is carried, side by side.
        self.weight = torch.nn.Parameter(torch.empty(in_channels, 3, out_channels))
        self.att = torch.nn.Parameter(torch.empty(out_channels, 1))
        # Gates of input, forgetting and output, and what is written.
        seen = 2 * out_channels if lazy else out_channels
        self.gates = torch.nn.Parameter(torch.empty(seen, 4, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for weight in (*self.weight.unbind(1), self.att, *self.gates.unbind(1)):
            glorot(weight)

    def forward(
        self,
        x: Features,
        pattern: SparsePattern,
        state: tuple[Tensor, Tensor],
        s: Tensor | None = None,
        groups: NodeGroups | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """What each node gathers of its neighbours, and its output and memory.

        Args:
            x (Tensor or SparseMatrix): Node features.
            pattern (SparsePattern): Neighbourhoods, each node its own neighbour.
            state (tuple of Tensor): Output and memory of the layer before.
            s (Tensor, optional): The gate of the features.
            groups (NodeGroups, optional): The graph of each node, if ``s`` differs by graph.
        """
        breadth = self._breadth(gated_product(x, self.weight.flatten(1), s, groups), pattern)
        hidden, memory = state
        seen = torch.cat([breadth, hidden], dim=1) if self.lazy else breadth
        write, forget, read, new = (seen @ self.gates.flatten(1)).unflatten(1, (4, -1)).unbind(1)
        memory = forget.sigmoid() * memory + write.sigmoid() * new.tanh()
        return breadth, (read.sigmoid() * memory.tanh(), memory)

    def _breadth(self, z: Tensor, pattern: SparsePattern) -> Tensor:
        target, source, carried = z.unflatten(1, (3, -1)).unbind(1)
        row, col = pattern.row.long(), pattern.col.long()
        pairs = torch.tanh(target.index_select(0, row) + source.index_select(0, col))
        scores = (pairs @ self.att).squeeze(1)
        # Softmax is the same whatever is subtracted from a row, so the maximum needs no gradient.
        lowest = torch.full_like(target.detach()[:, 0], -torch.inf)
        top = lowest.scatter_reduce(0, row, scores.detach(), "amax")
        weights = SparseMatrix(pattern, (scores - top.index_select(0, row)).exp())
        # The sum of weights is one more column of the product.
        ones = torch.ones_like(carried[:, :1])
        total = spmm(weights, torch.cat([carried, ones], dim=1))
        return torch.tanh(total[:, :-1] / total[:, -1:])

    def extra_repr(self) -> str:
        """Widths, as in PyG."""
        return f"{self.in_channels}, {self.out_channels}, lazy={self.lazy}"
