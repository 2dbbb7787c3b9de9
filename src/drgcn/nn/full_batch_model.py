"""What all full-batch models share: how they are called, prepared and regularised."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from drgcn.nn.features import Features, as_features, compress
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.sparse_matrix import SparseMatrix

# A layer's input before its gate, the gate, and the layer's output.
Layer = tuple[Features, Tensor | None, Tensor]


class FullBatchModel(torch.nn.Module, ABC):
    """A model of layers on one matrix of the graph: adjacency, Laplacian or neighbourhoods.

    A subclass says what that matrix is, runs the layers, and names what is decayed. It keeps
    its :class:`~drgcn.nn.layer_input.LayerInput` modules in ``inputs``.
    """

    inputs: torch.nn.ModuleList

    @staticmethod
    @abstractmethod
    def matrix(edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> Any:
        """What the layers take of the graph."""

    @abstractmethod
    def run_layers(self, x: Features, matrix: Any, groups: NodeGroups | None) -> Iterator[Layer]:
        """Every layer in turn."""

    @abstractmethod
    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """The parameters under L2, those of gates apart."""

    @classmethod
    def prepare(cls, data: Data) -> tuple[Any, ...]:
        """What ``forward`` takes, computed once: features as sparse as they are, the matrix of
        the graph, and the graph of each node where ``data`` is a batch of several."""
        matrix = cls.matrix(data.edge_index, data.num_nodes, data.x.dtype)
        return compress(data.x), matrix, NodeGroups.of(data.get("batch"), data.num_nodes)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        edge_index: Any,
        batch: Tensor | NodeGroups | None = None,
    ) -> Tensor:
        """Class scores of every node.

        Args:
            x (Tensor or SparseMatrix): Node features.
            edge_index (Tensor or matrix): Edges, made a matrix at every call, or the matrix that
                :meth:`prepare` makes once.
            batch (Tensor or NodeGroups, optional): The graph of each node; every graph then has
                its own reweighting vector. (default: one graph)
        """
        *_, (_, _, out) = self.layers(x, edge_index, batch)
        return out

    def layers(
        self,
        x: Tensor | SparseMatrix,
        edge_index: Any,
        batch: Tensor | NodeGroups | None = None,
    ) -> Iterator[Layer]:
        """For every layer its input, its reweighting vector, and its output."""
        features = as_features(x)
        nodes = features.shape[0]
        matrix = edge_index
        if isinstance(edge_index, Tensor):
            matrix = self.matrix(edge_index, nodes, features.dtype)
        yield from self.run_layers(features, matrix, NodeGroups.of(batch, nodes))

    def regularized_parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters under L2, and everything in the gates; norms are never decayed."""
        # NOTE[PAPER] "The same coefficient as the original GCNs" leaves open which blocks are
        # decayed when the host decays its first layer only; here all of them are. Dr for
        # Chebyshev networks, MixHop and MLP is not in the paper, and decayed likewise.
        yield from self.decayed()
        yield from self.gate_parameters()

    def gate_parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters of all gates."""
        for module in self.inputs:
            yield from module.gate_parameters()  # type: ignore[operator]

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for children in self.children():
            for module in children if isinstance(children, torch.nn.ModuleList) else [children]:
                module.reset_parameters()  # type: ignore[operator]
