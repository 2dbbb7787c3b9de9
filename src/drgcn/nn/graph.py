"""Normalised adjacency matrices, neighbourhoods, and the graphs of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch_geometric.utils import coalesce, remove_self_loops

from drgcn.errors import InputError, warn
from drgcn.nn.sparse import SparseMatrix, SparsePattern, spmm

Normalization = Literal["symmetric", "row"]


def normalized_adjacency(
    edge_index: Tensor,
    num_nodes: int,
    *,
    edge_weight: Tensor | None = None,
    normalization: Normalization = "symmetric",
    self_loops: bool = True,
    dtype: torch.dtype = torch.float32,
) -> SparseMatrix:
    r"""The propagation matrix :math:`\tilde{\mathbf{A}}`, computed once per graph.

    Symmetric: :math:`\mathbf{D}^{-1/2} (\mathbf{A} + \mathbf{I}) \mathbf{D}^{-1/2}`; row:
    :math:`\mathbf{D}^{-1} (\mathbf{A} + \mathbf{I})`. As in PyG, an edge ``(u, v)`` carries
    the message of ``u`` to ``v``, so it stands in row ``v`` and column ``u``. Self-loops of
    the input are dropped before :math:`\mathbf{I}` is added, and repeated edges add up.

    Args:
        edge_index (Tensor): Edges ``[2, E]``.
        num_nodes (int): Number of nodes.
        edge_weight (Tensor, optional): Weight of each edge ``[E]``, of which no node's sum is
            negative. (default: one)
        normalization (str, optional): :obj:`"symmetric"` or :obj:`"row"`.
        self_loops (bool, optional): Add :math:`\mathbf{I}`. (default: :obj:`True`)
        dtype (torch.dtype, optional): Data type of the result.
    """
    if normalization not in ("symmetric", "row"):
        raise ValueError(
            f"normalized_adjacency expects normalization 'symmetric' or 'row'; "
            f"found {normalization!r}."
        )
    _check_edges("normalized_adjacency", edge_index, num_nodes)
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.size(1), dtype=dtype, device=edge_index.device)
    elif edge_weight.shape != edge_index.shape[1:]:
        raise InputError(
            f"normalized_adjacency expects a weight for each of the {edge_index.size(1):,} edges; "
            f"found shape {list(edge_weight.shape)}."
        )
    edge_index, edge_weight = remove_self_loops(edge_index, edge_weight.to(dtype))
    if self_loops:
        nodes = torch.arange(num_nodes, device=edge_index.device)
        edge_index = torch.cat([edge_index, nodes.expand(2, -1)], dim=1)
        edge_weight = torch.cat([edge_weight, edge_weight.new_ones(num_nodes)])
    edge_index, edge_weight = coalesce(edge_index, edge_weight, num_nodes)
    source, target = edge_index
    degree = edge_weight.new_zeros(num_nodes).index_add(0, target, edge_weight)
    if bool((degree < 0).any()):
        raise InputError(
            f"normalized_adjacency expects weights of edges whose sum is not negative at any "
            f"node; found {float(degree.min()):.4g} at node {int(degree.argmin())}. Shift or drop "
            f"negative weights."
        )
    if normalization == "symmetric":
        scale = _inverse(degree.sqrt())
        values = scale[source] * edge_weight * scale[target]
    else:
        values = _inverse(degree)[target] * edge_weight
    return SparseMatrix.from_coordinates(target, source, values, (num_nodes, num_nodes))


def warn_of_edge_weights(model: str, edge_weight: Tensor | None) -> None:
    """Warn that a model does not use the weights of edges, if there are any."""
    if edge_weight is not None:
        warn(f"{model} takes no edge weights: those of the data are not used")


def neighborhoods(edge_index: Tensor, num_nodes: int) -> SparsePattern:
    """Return the neighbourhoods: row ``v`` holds the sources of the edges into ``v``, and ``v``.

    Every neighbour counts once, however often its edge is listed.
    """
    _check_edges("neighborhoods", edge_index, num_nodes)
    nodes = torch.arange(num_nodes, device=edge_index.device)
    source, target = coalesce(torch.cat([edge_index, nodes.expand(2, -1)], dim=1))
    return SparsePattern.from_coordinates(target, source, (num_nodes, num_nodes))[0]


def _check_edges(caller: str, edge_index: Tensor | None, num_nodes: int) -> None:
    if edge_index is None:
        raise InputError(f"{caller} expects edge_index of shape [2, edges]; found none.")
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.is_floating_point():
        raise InputError(
            f"{caller} expects edge_index of shape [2, edges] with integers; found "
            f"{edge_index.dtype} of shape {list(edge_index.shape)}."
        )
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        raise InputError(
            f"{caller} expects edges between nodes 0 to {num_nodes - 1}; found node "
            f"{int(edge_index.min())} to {int(edge_index.max())}."
        )


def _inverse(degree: Tensor) -> Tensor:
    """Return the reciprocal, and zero for nodes without neighbours."""
    return torch.where(degree > 0, degree.reciprocal(), torch.zeros_like(degree))


@dataclass(frozen=True, eq=False)
class NodeGroups:
    """The graphs of a batch.

    Pooling and spreading are sparse products: they add in a fixed order on every device, and
    run for many seeds at once.

    Args:
        graph: Graph of each node ``[nodes]``, as PyG's ``batch``.
        size: Number of graphs.
    """

    graph: Tensor
    size: int
    _blocks: WeakKeyDictionary[SparsePattern, SparsePattern] = field(
        default_factory=WeakKeyDictionary, repr=False
    )

    @classmethod
    def of(cls, batch: Tensor | NodeGroups | None, nodes: int) -> NodeGroups | None:
        """Return the groups of PyG's ``batch`` vector; ``None`` for one graph alone."""
        if batch is None or isinstance(batch, NodeGroups):
            return batch
        if batch.is_floating_point() or batch.shape != (nodes,) or bool((batch < 0).any()):
            raise ValueError(
                f"Expected batch to hold the graph of each of the {nodes} nodes, numbers from 0 "
                f"on; found {batch.dtype} of shape {list(batch.shape)}. No edge weights are taken."
            )
        return cls(batch, int(batch.max()) + 1 if batch.numel() else 0)

    def to(self, device: torch.device | str) -> NodeGroups:
        """The same groups on another device."""
        return NodeGroups(self.graph.to(device), self.size)

    def mean(self, x: Tensor | SparseMatrix) -> Tensor:
        """Mean node representation of each graph ``[graphs, d]``; zero for one without nodes."""
        if isinstance(x, SparseMatrix):
            total = self.as_blocks(x).column_mean.view(self.size, -1) * x.shape[0]
        else:
            dtype = torch.promote_types(x.dtype, torch.float32)
            total = spmm(self._members(dtype), x.to(dtype))
        return total / self._counts.clamp(min=1).to(total.dtype)[:, None]

    def spread(self, s: Tensor) -> Tensor:
        """Row ``v`` of the result is the row of ``s`` ``[graphs, d]`` for the graph of ``v``."""
        return spmm(self._membership(s.dtype), s)

    def as_blocks(self, x: SparseMatrix) -> SparseMatrix:
        """Columns apart for every graph: column ``i`` of graph ``g`` becomes ``g * d + i``.

        Rows then meet weights of their own graph, ``[graphs * d, k]``, in one product.
        """
        blocks = self._blocks.get(x.pattern)
        if blocks is None:
            width = x.shape[1]
            col = self.graph[x.pattern.row] * width + x.pattern.col.long()
            shape = (x.shape[0], self.size * width)
            blocks = SparsePattern.from_coordinates(x.pattern.row, col, shape)[0]
            self._blocks[x.pattern] = blocks
        return SparseMatrix(blocks, x.values)  # a row's entries keep their order

    @cached_property
    def _counts(self) -> Tensor:
        return torch.bincount(self.graph, minlength=self.size)

    @cached_property
    def _pattern(self) -> SparsePattern:
        nodes = torch.arange(self.graph.numel(), device=self.graph.device)
        shape = (self.graph.numel(), self.size)
        return SparsePattern.from_coordinates(nodes, self.graph, shape)[0]

    def _membership(self, dtype: torch.dtype) -> SparseMatrix:
        ones = torch.ones(self.graph.numel(), dtype=dtype, device=self.graph.device)
        return SparseMatrix(self._pattern, ones)

    def _members(self, dtype: torch.dtype) -> SparseMatrix:
        return SparseMatrix(self._pattern.transpose, self._membership(dtype).values)
