"""LGCN as its authors compute it, on the whole graph, plain or with dimensional reweighting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.inits import zeros

from drgcn.kernels import LaneFunction, triton_available, with_lanes
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
from drgcn.nn.gcn import GraphConvolution
from drgcn.nn.graph import NodeGroups, normalized_adjacency
from drgcn.nn.sparse import SparseMatrix, spmm

if triton_available():
    from drgcn.kernels.sparse import largest_entries as _cuda_forward
    from drgcn.kernels.sparse import largest_entries_backward as _cuda_backward
else:
    _cuda_forward = _cuda_backward = None  # type: ignore[assignment]

# Up to so many entries, all rows of a table are equally long; widths double from there.
_WIDEST_EXACT = 8
# Tables up to this width are sorted by a network, on whole rows at a time.
_WIDEST_NETWORK = 64
# The last entry that fits into half of the bits that a float64 has more than a float32.
_LAST_ENTRY = 2**28 - 1

# Rows of one table: their nodes [m], and their entries [width, m] among those of the matrix.
Table = tuple[Tensor, Tensor]


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
        norm (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)
        reweight (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)

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
        self.inputs = layer_inputs((in_channels, *widths), norm=norm, reweight=reweight)
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
    def matrix(
        edge_index: Tensor,
        num_nodes: int,
        dtype: torch.dtype,
        edge_weight: Tensor | None = None,
    ) -> LargestNeighbors:
        """Return the normalised adjacency matrix, laid out for ranking."""
        return LargestNeighbors.of(
            normalized_adjacency(edge_index, num_nodes, edge_weight=edge_weight, dtype=dtype)
        )

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """Return all parameters of the layers, biases and batch norms included."""
        layers = torch.nn.ModuleList([self.first, *self.convs, self.last])
        return layers.parameters()

    def run_layers(
        self, x: Features, matrix: LargestNeighbors, groups: NodeGroups | None
    ) -> Iterator[Layer]:
        """Run the layers one after the other."""
        layer_input, s = self.inputs[0](x, groups)
        # Since dropout(S x) = S dropout(x), the gate is folded into the weights instead.
        dropped = dropout(layer_input, self.dropout, self.training)
        h = self.first(dropped, matrix.matrix, s, groups)
        yield layer_input, s, h
        for enter, conv in zip(list(self.inputs)[1:-1], self.convs, strict=True):
            layer_input, s = enter(h, groups)
            scaled = layer_input
            if s is not None:
                scaled = layer_input * (s if groups is None else groups.spread(s))
            h = torch.cat([layer_input, conv(scaled, matrix)], dim=1)
            yield layer_input, s, h
        layer_input, s = self.inputs[-1](h, groups)
        dropped = dropout(layer_input, self.dropout, self.training)
        yield layer_input, s, self.last(dropped, matrix.matrix, s, groups)


class _BiasedConvolution(GraphConvolution):
    """The layer ``A (X S W + b)``, in which the bias is propagated too."""

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


class LearnableGraphConvolution(torch.nn.Module):
    r"""The layer of `"Large-Scale Learnable Graph Convolutional Networks"
    <https://arxiv.org/abs/1808.03965>`_ (LGCL) as its authors' code has it.

    For every feature, a node's own value and the :math:`k` largest among its neighbours, weighted
    by the adjacency matrix, stand in a row of :math:`k + 1` places. Two 1-D convolutions without
    an activation make one vector of it, the first with a bias, and a batch norm with the
    statistics of the given nodes ends the layer. Dropout acts in front of both convolutions.

    Values below zero never enter, but for the node's own: in the authors' dense product all other
    nodes of the graph compete as zeros.

    Args:
        in_channels (int): Size of each input node.
        out_channels (int): Size of each output node.
        k (int): How many neighbours' values are taken.
        dropout (float, optional): Dropout in front of both convolutions. (default: :obj:`0.0`)
    """

    def __init__(self, in_channels: int, out_channels: int, k: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.k = k
        self.dropout = dropout
        self.middle = (in_channels + out_channels) // 2
        # Kernels [width * in, out], the place in the row first.
        self.kernel = (k + 1) // 2 + 1
        self.weight1 = torch.nn.Parameter(torch.empty(self.kernel, in_channels, self.middle))
        self.bias1 = torch.nn.Parameter(torch.empty(self.middle))
        # The second kernel is as wide as the output of the first.
        self.weight2 = torch.nn.Parameter(torch.empty(k // 2 + 1, self.middle, out_channels))
        self.norm = torch.nn.BatchNorm1d(out_channels, eps=1e-3, track_running_stats=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        for weight in (self.weight1, self.weight2):
            # TensorFlow's Xavier: both fans count the width of the kernel.
            limit = (6 / (weight.size(0) * (weight.size(1) + weight.size(2)))) ** 0.5
            torch.nn.init.uniform_(weight, -limit, limit)
        zeros(self.bias1)
        self.norm.reset_parameters()

    def forward(self, x: Tensor, graph: LargestNeighbors) -> Tensor:
        """Rank the neighbours of every node, then convolve.

        Args:
            x (Tensor): Node features ``[nodes, in_channels]``, reweighted.
            graph (LargestNeighbors): The adjacency matrix.
        """
        rows = torch.cat([x[:, None], graph.select(x, self.k)], dim=1)  # [nodes, k + 1, in]
        rows = F.dropout(rows, self.dropout, self.training)
        h = rows.flatten(1) @ self._sliding() + self.bias1.repeat(self.k // 2 + 1)
        h = F.dropout(h, self.dropout, self.training)
        return self.norm(h @ self.weight2.flatten(0, 1))

    def _sliding(self) -> Tensor:
        """The first convolution as one matrix ``[(k + 1) * in, places * middle]``: every place
        of its output is the kernel moved on by one. Torch's own convolution takes many seeds at
        once as groups, and that is much slower."""
        moved = [
            F.pad(self.weight1.flatten(0, 1), (0, 0, i * self.in_channels, after))
            for i in range(self.k // 2 + 1)
            for after in [(self.k // 2 - i) * self.in_channels]
        ]
        return torch.cat(moved, dim=1)

    def extra_repr(self) -> str:
        """Widths and the number of neighbours."""
        return f"{self.in_channels}, {self.out_channels}, k={self.k}"


@dataclass(frozen=True, eq=False)
class LargestNeighbors:
    """A matrix of the graph, with its rows laid out in tables so that they can be ranked.

    Rows of similar length share a table of their width, so that few places are empty and one long
    row does not widen all others. On CUDA a kernel reads the matrix as it is.

    Args:
        matrix: Weight of each neighbour, such as the normalised adjacency matrix.
        tables: Nodes and entries of each table; entry ``nnz`` stands for an empty place.
    """

    matrix: SparseMatrix
    tables: tuple[Table, ...]

    @classmethod
    def of(cls, matrix: SparseMatrix) -> LargestNeighbors:
        """Lay out the rows of a matrix."""
        start, length = matrix.pattern.crow[:-1].long(), matrix.pattern.crow.diff().long()
        tables, below, width = [], 0, 1
        while below < int(length.max() if length.numel() else 0):
            nodes = ((length > below) & (length <= width)).nonzero().squeeze(1)
            if nodes.numel():
                place = torch.arange(width, device=nodes.device)[:, None]
                empty = place >= length[nodes]
                tables.append(
                    (nodes, (start[nodes] + place).masked_fill(empty, matrix.pattern.nnz))
                )
            below, width = width, width + 1 if width < _WIDEST_EXACT else 2 * width
        return cls(matrix, tuple(tables))

    def to(self, device: torch.device | str) -> LargestNeighbors:
        """The same on another device."""
        tables = tuple((nodes.to(device), entries.to(device)) for nodes, entries in self.tables)
        return LargestNeighbors(self.matrix.to(device), tables)

    def select(self, x: Tensor, count: int) -> Tensor:
        r"""For every node :math:`i` and feature, the ``count`` largest of
        :math:`\max(a_{ij} x_j, 0)` over its neighbours :math:`j`, the largest first, and zeros
        where neighbours are too few.

        Args:
            x (Tensor): Node features ``[nodes, d]``.
            count (int): How many values to take.

        Shapes:
            - **output:** ``[nodes, count, d]``
        """
        return _Largest.apply(x, self, count)[0]


class _Largest(LaneFunction):
    """The values, and for each of them above zero the entry of the matrix that it came from."""

    @staticmethod
    def forward(x: Tensor, graph: LargestNeighbors, count: int) -> tuple[Tensor, Tensor]:
        if x.is_cuda and _cuda_forward is not None:
            return _cuda_forward(graph.matrix, x, count)
        values, col = _padded(graph.matrix)
        out = x.new_zeros(len(x), count, x.size(1))
        chosen = torch.full_like(out, len(values) - 1, dtype=torch.int32)
        fits = x.dtype == torch.float32 and len(values) - 1 <= _LAST_ENTRY
        order = _sorted_in_one if fits else _sorted
        for nodes, entries in graph.tables:
            reached = x[col[entries]].mul_(values[entries, None]).clamp_(min=0)
            kept = min(count, len(entries))
            top, found = order(reached, entries, kept)
            out[nodes, :kept] = top.transpose(0, 1)
            chosen[nodes, :kept] = found.int().transpose(0, 1)
        return out, chosen

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _, ctx.graph, _ = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        return _LargestGradient.apply(grad, *ctx.saved_tensors, ctx.graph), None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, graph: LargestNeighbors, count: int
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        # Features are ranked one by one, so lanes are more features.
        lanes = _as_features(x, in_dims[0], info.batch_size)
        out, chosen = (
            result.unflatten(2, (info.batch_size, -1)).movedim(2, 0)
            for result in _Largest.apply(lanes, graph, count)
        )
        return (out, chosen), (0, 0)


class _LargestGradient(LaneFunction):
    """The backward pass as a function of its own, so that vmap can take it in lanes too."""

    @staticmethod
    def forward(grad: Tensor, out: Tensor, chosen: Tensor, graph: LargestNeighbors) -> Tensor:
        if grad.is_cuda and _cuda_backward is not None:
            return _cuda_backward(graph.matrix, grad, chosen)
        values, col = _padded(graph.matrix)
        # No entry is chosen twice for a feature, so its gradient is put and not added.
        taken = torch.where(out > 0, grad, 0).flatten(0, 1)
        reached = grad.new_zeros(len(values), grad.size(2)).scatter_(
            0, chosen.flatten(0, 1), taken
        )
        total = grad.new_zeros(graph.matrix.shape[1], grad.size(2))
        return total.index_add_(0, col, reached.mul_(values[:, None]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, out, chosen, ctx.graph = inputs
        ctx.save_for_backward(out, chosen)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        # Second gradients, in plain operations: each value is that of its entry.
        out, chosen = ctx.saved_tensors
        values, col = _padded(ctx.graph.matrix)
        entries = chosen.long()
        reached = grad.gather(0, col[entries].flatten(0, 1)).view_as(out) * values[entries]
        return torch.where(out > 0, reached, 0), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Tensor, int]:
        *tensors, graph = arguments
        lanes = [
            _as_features(value, dim, info.batch_size)
            for value, dim in zip(tensors, in_dims, strict=False)
        ]
        found = _LargestGradient.apply(*lanes, graph)
        return found.unflatten(1, (info.batch_size, -1)).movedim(1, 0), 0


def _as_features(value: Tensor, dim: int | None, lanes: int) -> Tensor:
    """Return ``[..., d]`` with an axis of lanes as ``[..., lanes * d]``."""
    return with_lanes(value, dim, lanes).movedim(0, -2).flatten(-2)


def _sorted(reached: Tensor, entries: Tensor, kept: int) -> tuple[Tensor, Tensor]:
    """Return the ``kept`` largest values of a table, the first of equals first, and their entries.

    Args:
        reached: Values ``[width, rows, d]``, none negative.
        entries: Entries that they came from ``[width, rows]``.
        kept: How many to keep.
    """
    top, place = reached.sort(dim=0, descending=True, stable=True)
    return top[:kept], entries[:, :, None].expand_as(place).gather(0, place[:kept])


def _sorted_in_one(reached: Tensor, entries: Tensor, kept: int) -> tuple[Tensor, Tensor]:
    """Do the same for values in float32, faster.

    They leave the lower bits of a float64 free. The entry stands there, so that values and entries
    are compared as one number; it stays below half of the last bit, and rounding takes it off.
    """
    keys = reached.double().view(torch.int64)
    keys = keys.add_((_LAST_ENTRY - entries)[:, :, None]).view(torch.float64)
    if len(keys) <= _WIDEST_NETWORK:
        rows = list(keys.unbind())
        spare = torch.empty_like(rows[0])
        for high, low in _sorting_network(len(rows), kept):
            torch.minimum(rows[high], rows[low], out=spare)
            torch.maximum(rows[high], rows[low], out=rows[high])
            rows[low], spare = spare, rows[low]
        keys = torch.stack(rows[:kept])
    else:
        keys = keys.sort(dim=0, descending=True).values[:kept]
    return keys.float(), _LAST_ENTRY - (keys.view(torch.int64) & _LAST_ENTRY)


@cache
def _sorting_network(width: int, kept: int) -> list[tuple[int, int]]:
    """Return the pairs of places that Batcher's odd-even merge sort compares, without those that
    have no say in the first ``kept`` places."""
    pairs, run = [], 1
    while run < width:
        step = run
        while step:
            for start in range(step % run, width - step, 2 * step):
                for place in range(start, min(start + step, width - step)):
                    if place // (2 * run) == (place + step) // (2 * run):
                        pairs.append((place, place + step))
            step //= 2
        run *= 2
    needed, used = set(range(kept)), []
    for pair in reversed(pairs):
        if not needed.isdisjoint(pair):
            needed.update(pair)
            used.append(pair)
    return used[::-1]


def _padded(matrix: SparseMatrix) -> tuple[Tensor, Tensor]:
    """Return values and columns of the entries, with those of an empty place at the end."""
    values, col = matrix.values, matrix.pattern.col.long()
    return torch.cat([values, values.new_zeros(1)]), torch.cat([col, col.new_zeros(1)])
