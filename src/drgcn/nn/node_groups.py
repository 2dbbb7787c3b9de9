"""Which graph of a batch each node belongs to, laid out for products instead of scatters."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.sparse_pattern import SparsePattern
from drgcn.nn.spmm import spmm


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
    _blocks: dict[int, tuple[SparsePattern, SparsePattern]] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def of(cls, batch: Tensor | NodeGroups | None, nodes: int) -> NodeGroups | None:
        """The groups of PyG's ``batch`` vector for so many nodes; nothing for one graph alone."""
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
        known, blocks = self._blocks.get(id(x.pattern), (None, None))
        if known is not x.pattern or blocks is None:
            width = x.shape[1]
            col = self.graph[x.pattern.row] * width + x.pattern.col.long()
            shape = (x.shape[0], self.size * width)
            blocks = SparsePattern.from_coordinates(x.pattern.row, col, shape)[0]
            # With the pattern itself, lest another one be given its address.
            self._blocks[id(x.pattern)] = (x.pattern, blocks)
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
