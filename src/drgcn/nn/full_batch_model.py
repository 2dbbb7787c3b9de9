"""What all full-batch models share: how they are called and prepared."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from drgcn.nn.features import Features, as_features, compress
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.reweighted_model import Layer, ReweightedModel
from drgcn.nn.sparse_matrix import SparseMatrix


class FullBatchModel(ReweightedModel):
    """A model of layers on one matrix of the graph: adjacency, Laplacian or neighbourhoods.

    A subclass says what that matrix is, runs the layers, and names what is decayed.
    """

    @staticmethod
    @abstractmethod
    def matrix(edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> Any:
        """What the layers take of the graph."""

    @abstractmethod
    def run_layers(self, x: Features, matrix: Any, groups: NodeGroups | None) -> Iterator[Layer]:
        """Every layer in turn."""

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
