"""GeniePath and Dr-GeniePath: as the paper writes them or as public code does, lazy or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

import torch
from torch import Tensor
from torch_geometric.nn.inits import glorot, zeros

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
from drgcn.nn.gat import attention_coefficients
from drgcn.nn.graph import NodeGroups, neighborhoods, warn_of_edge_weights
from drgcn.nn.sparse import SparseMatrix, SparsePattern, spmm

Attention = Literal["tanh", "gat"]


class GeniePath(FullBatchModel):
    r"""The network of `"GeniePath: Graph Neural Networks with Adaptive Receptive Paths"
    <https://arxiv.org/abs/1802.00910>`_, plain or with dimensional reweighting in front of the
    embedding and of every path layer:

    .. math::
        \mathbf{H}^{0} = \mathrm{dropout}(\mathbf{X} \mathbf{S}) \mathbf{W}, \quad
        \mathbf{H}^{l}, \mathbf{C}^{l} = \mathrm{path}(\mathrm{dropout}(\mathbf{H}^{l-1}
        \mathbf{S}^{l}), \mathbf{C}^{l-1}), \quad
        \mathbf{Y} = \mathbf{H}^{L} \mathbf{W}' + \mathbf{b},

    with path layers of :class:`AdaptivePath` and :math:`\mathbf{C}^0 = 0`. In the lazy variant
    the breadth of a layer is the input of the next, and memory and output only read breadths.

    Its authors have published no code. PyG's example and ports of it differ from the paper in
    attention, gates and input layer, and in what a lazy layer reads; each difference is an option
    here. Their form for PPI: ``GeniePath(50, 256, 121, num_layers=4, dropout=0.0,
    attention="gat", recurrent=True, input_bias=True, lazy=True, stacked=False)``.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each hidden node, and of its memory.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of path layers. (default: :obj:`2`)
        lazy (bool, optional): The lazy variant. (default: :obj:`False`)
        attention (str, optional): :obj:`"tanh"` for the paper's, :obj:`"gat"` for that of
            :class:`torch_geometric.nn.GATConv`, with its bias. (default: :obj:`"tanh"`)
        recurrent (bool, optional): Let the gates see the output of the layer before, as those of
            an LSTM do; it is zero in front of the first. (default: :obj:`False`)
        input_bias (bool, optional): Add a bias to :math:`\mathbf{H}^0`. (default: :obj:`False`)
        stacked (bool, optional): Let a lazy layer gather from the breadth of the layer before, or
            else each from :math:`\mathbf{H}^0`. (default: :obj:`True`)
        dropout (float, optional): Dropout on the input of the embedding and of every path layer;
            on sparse features, of the non-zeros. (default: :obj:`0.5`)
        norm (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)
        reweight (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)

    Example:
        >>> model = GeniePath(1433, 16, 7, reweight="dr")
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
        lazy: bool = False,
        attention: Attention = "tanh",
        recurrent: bool = False,
        input_bias: bool = False,
        stacked: bool = True,
        dropout: float = 0.5,
        norm: Norm | None = None,
        reweight: Reweight | None = None,
    ) -> None:
        super().__init__()
        check_sizes("GeniePath", in_channels=in_channels, hidden_channels=hidden_channels)
        check_sizes("GeniePath", out_channels=out_channels, num_layers=num_layers)
        check_rates("GeniePath", dropout=dropout)
        if not stacked and not lazy:
            raise ValueError(
                "GeniePath expects stacked=False with lazy=True alone; found lazy=False, whose "
                "layers read the output of the layer before."
            )
        widths = [in_channels, *[hidden_channels] * num_layers]
        self.dropout = dropout
        self.lazy = lazy
        self.stacked = stacked
        # NOTE[PAPER] Dr for GeniePath is not in the paper. As in GraphSAGE, the classifier behind
        # the last layer is not reweighted.
        self.inputs = layer_inputs(widths, norm=norm, reweight=reweight)
        self.paths = torch.nn.ModuleList(
            AdaptivePath(
                hidden_channels,
                hidden_channels,
                lazy=lazy,
                attention=attention,
                recurrent=recurrent,
            )
            for _ in range(num_layers)
        )
        self.embedding = torch.nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.weight = torch.nn.Parameter(torch.empty(hidden_channels, out_channels))
        self.bias = torch.nn.Parameter(torch.empty(out_channels))
        self.embedding_bias = (
            torch.nn.Parameter(torch.empty(hidden_channels)) if input_bias else None
        )
        self._reset_ends()  # the other modules have initialised themselves

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        super().reset_parameters()
        self._reset_ends()

    def _reset_ends(self) -> None:
        glorot(self.embedding)
        glorot(self.weight)
        zeros(self.bias)
        zeros(self.embedding_bias)

    @staticmethod
    def matrix(
        edge_index: Tensor,
        num_nodes: int,
        dtype: torch.dtype,
        edge_weight: Tensor | None = None,
    ) -> SparsePattern:
        """Return the neighbourhoods; attention computes the values."""
        warn_of_edge_weights("GeniePath", edge_weight)
        return neighborhoods(edge_index, num_nodes)

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """Return all parameters but those of norms and gates."""
        added = [] if self.embedding_bias is None else [self.embedding_bias]
        return [self.embedding, *added, *self.paths.parameters(), self.weight, self.bias]

    def run_layers(
        self, x: Features, matrix: SparsePattern, groups: NodeGroups | None
    ) -> Iterator[Layer]:
        """Run the layers one after the other; the last one's output is classified."""
        layer_input, s = self.inputs[0](x, groups)
        # Since dropout(S x) = S dropout(x), the gate is folded into the weights instead.
        dropped = dropout(layer_input, self.dropout, self.training)
        h = gated_product(dropped, self.embedding, s, groups)
        if self.embedding_bias is not None:
            h = h + self.embedding_bias
        yield layer_input, s, h
        state = h, torch.zeros_like(h)
        for number, path in enumerate(self.paths, 1):
            layer_input, s = self.inputs[number](h, groups)
            dropped = dropout(layer_input, self.dropout, self.training)
            breadth, state = path(dropped, matrix, state, s, groups, first=number == 1)
            if self.stacked:
                h = breadth if self.lazy else state[0]
            last = number == len(self.paths)
            yield layer_input, s, state[0] @ self.weight + self.bias if last else h


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

    The lazy layer's gates see :math:`\mathbf{b}_i \, \Vert \, \mathbf{h}_i` of the layer before,
    or of the input layer.

    Args:
        in_channels (int): Size of each input node.
        out_channels (int): Size of breadth, memory and output.
        lazy (bool, optional): Let the gates see the last output too. (default: :obj:`False`)
        attention (str, optional): :obj:`"tanh"` for the above; :obj:`"gat"` for the softmax of
            :math:`\mathrm{LeakyReLU}(\mathbf{a}_t^\top \mathbf{z}_i + \mathbf{a}_s^\top
            \mathbf{z}_j)` with :math:`\mathbf{z} = \mathbf{W}^\top \mathbf{x}`, and a bias within
            the tanh of :math:`\mathbf{b}_i`. (default: :obj:`"tanh"`)
        recurrent (bool, optional): Let the gates see the output of the path layer before, as in
            :class:`torch.nn.LSTM`. (default: :obj:`False`)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        lazy: bool = False,
        attention: Attention = "tanh",
        recurrent: bool = False,
    ) -> None:
        super().__init__()
        if attention not in get_args(Attention):
            raise ValueError(
                f"AdaptivePath expects attention from {get_args(Attention)}; found {attention!r}."
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.lazy = lazy
        self.attention = attention
        self.recurrent = recurrent
        # Weights of targets, of sources, and of the values that are averaged, side by side; GAT's
        # attention has one for all of them, and a vector each for targets and sources.
        maps, vectors = (3, 1) if attention == "tanh" else (1, 2)
        self.weight = torch.nn.Parameter(torch.empty(in_channels, maps, out_channels))
        self.att = torch.nn.Parameter(torch.empty(out_channels, vectors))
        # Gates of input, forgetting and output, and the new content of the memory.
        seen = (1 + lazy + recurrent) * out_channels
        self.gates = torch.nn.Parameter(torch.empty(seen, 4, out_channels))
        gat = attention == "gat"
        self.bias = torch.nn.Parameter(torch.empty(out_channels)) if gat else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        # NOTE[DIFF] PyG's example starts its linear maps and LSTM cells in torch's ranges; here
        # all weights start in Glorot's.
        vectors = self.att.split(1, dim=1)
        for weight in (*self.weight.unbind(1), *vectors, *self.gates.unbind(1)):
            glorot(weight)
        zeros(self.bias)

    def forward(
        self,
        x: Features,
        pattern: SparsePattern,
        state: tuple[Tensor, Tensor],
        s: Tensor | None = None,
        groups: NodeGroups | None = None,
        *,
        first: bool = False,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return what each node gathers from its neighbours, and its new output and memory.

        Args:
            x (Tensor or SparseMatrix): Node features.
            pattern (SparsePattern): Neighbourhoods, each node its own neighbour.
            state (tuple of Tensor): Output and memory of the layer before.
            s (Tensor, optional): The gate of the features.
            groups (NodeGroups, optional): The graph of each node, if ``s`` differs by graph.
            first (bool, optional): The state holds the output of the input layer, which recurrent
                gates do not see. (default: :obj:`False`)
        """
        z = gated_product(x, self.weight.flatten(1), s, groups)
        breadth = (
            self._breadth(z, pattern) if self.bias is None else self._gat(z, pattern, self.bias)
        )
        hidden, memory = state
        parts = [breadth, hidden] if self.lazy else [breadth]
        if self.recurrent:
            parts.append(torch.zeros_like(hidden) if first else hidden)
        seen = torch.cat(parts, dim=1)
        write, forget, read, new = (seen @ self.gates.flatten(1)).unflatten(1, (4, -1)).unbind(1)
        memory = forget.sigmoid() * memory + write.sigmoid() * new.tanh()
        return breadth, (read.sigmoid() * memory.tanh(), memory)

    def _breadth(self, z: Tensor, pattern: SparsePattern) -> Tensor:
        target, source, carried = z.unflatten(1, (3, -1)).unbind(1)
        row, col = pattern.row.long(), pattern.col.long()
        pairs = torch.tanh(target.index_select(0, row) + source.index_select(0, col))
        scores = (pairs @ self.att).squeeze(1)
        # A softmax does not change with a shift of its row, so the maximum needs no gradient.
        lowest = torch.full_like(target.detach()[:, 0], -torch.inf)
        top = lowest.scatter_reduce(0, row, scores.detach(), "amax")
        weights = SparseMatrix(pattern, (scores - top.index_select(0, row)).exp())
        # The sum of weights is one more column of the product.
        ones = torch.ones_like(carried[:, :1])
        total = spmm(weights, torch.cat([carried, ones], dim=1))
        return torch.tanh(total[:, :-1] / total[:, -1:])

    def _gat(self, z: Tensor, pattern: SparsePattern, bias: Tensor) -> Tensor:
        target, source = (z @ self.att).t()[:, None]
        alpha = attention_coefficients(target, source, pattern)
        return torch.tanh(spmm(SparseMatrix(pattern, alpha), z[None])[0] + bias)

    def extra_repr(self) -> str:
        """Widths, as in PyG, and what differs from the paper."""
        words = f"{self.in_channels}, {self.out_channels}, lazy={self.lazy}"
        words += "" if self.attention == "tanh" else f", attention={self.attention!r}"
        return words + (", recurrent=True" if self.recurrent else "")
