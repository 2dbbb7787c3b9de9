"""GCNs that draw each layer's senders together: what FastGCN, LADIES and AS-GCN share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.inits import glorot

from drgcn.nn.adjacency import normalized_adjacency
from drgcn.nn.argument_checks import check_rates, check_sizes
from drgcn.nn.features import Features, as_features, compress, map_values
from drgcn.nn.gated_product import gated_product
from drgcn.nn.layer_input import LayerInput, Norm, Reweight
from drgcn.nn.propagated import Propagated
from drgcn.nn.reweighted_model import Layer, ReweightedModel
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.spmm import spmm
from drgcn.sampling import CSRGraph, LayerSample


class LayerSampledGCN(ReweightedModel):
    r"""A GCN that is trained on samples of its layers and evaluated exactly.

    In training the rows of a batch draw, top layer first, the nodes that send to them; each set
    of nodes is shared by all rows of the layer above. The mean of a Dr block is that of the rows
    which enter its layer. ``forward`` takes the whole graph, layer by layer.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each hidden node.
        out_channels (int): Number of classes.
        num_layers (int): Number of layers.
        dropout (float): Dropout on the input of every layer.
        norm (str, optional): See :class:`~drgcn.nn.GCN`.
        reweight (str, optional): See :class:`~drgcn.nn.GCN`.
        dense_first (bool): The first layer takes :math:`\tilde{\mathbf{A}} \mathbf{X}`, computed
            once, and is not sampled.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int,
        dropout: float,
        norm: Norm | None,
        reweight: Reweight | None,
        dense_first: bool,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        check_sizes(name, in_channels=in_channels, hidden_channels=hidden_channels)
        check_sizes(name, out_channels=out_channels, num_layers=num_layers)
        check_rates(name, dropout=dropout)
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        self.dropout = dropout
        self.dense_first = dense_first
        self.inputs = torch.nn.ModuleList(
            LayerInput(width, norm=norm, reweight=reweight) for width in widths[:-1]
        )
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.empty(a, b)) for a, b in pairwise(widths)
        )

    @abstractmethod
    def sampler(self, graph: CSRGraph) -> Any:
        """What draws the layers, from the propagation matrix of the training graph."""

    @abstractmethod
    def sample_layers(self, batch: Tensor, scores: Any, sampler: Any) -> list[LayerSample]:
        """The samples of all sampled layers, top layer first."""

    def node_scores(self, x: Tensor) -> Any:
        """What the model says of nodes before a step samples any."""

    def propagation(self, matrix: SparseMatrix, x: Tensor | SparseMatrix) -> SparseMatrix:
        """The matrix of the sampled layers, for the features of all nodes."""
        return matrix

    def sampled_matrix(self, layer: LayerSample, rows: Tensor, scores: Any) -> Tensor:
        """The sampled layer's weights."""
        return layer.matrix

    def extra_loss(self, matrix: Tensor, h: Tensor, out: Tensor) -> Tensor:
        """What the top layer adds to the loss."""
        return out.new_zeros(())

    def matrix(self, edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> SparseMatrix:
        """The propagation matrix."""
        return normalized_adjacency(edge_index, num_nodes, dtype=dtype)

    def prepare(self, data: Data) -> tuple[Any, ...]:
        """What ``forward`` takes, computed once."""
        matrix = self.matrix(data.edge_index, data.num_nodes, data.x.dtype)
        if self.dense_first:
            return Propagated(spmm(matrix, _dense(data.x))), matrix
        return compress(data.x), matrix

    def prepare_training(self, data: Data) -> tuple[Any, ...]:
        """What :meth:`sampled` takes, from the graph of the training nodes."""
        matrix = self.matrix(data.edge_index, data.num_nodes, data.x.dtype)
        x = _dense(data.x)
        pattern = matrix.pattern
        graph = CSRGraph(pattern.crow, pattern.col, data.num_nodes, matrix.values)
        return spmm(matrix, x) if self.dense_first else x, self.sampler(graph)

    def forward(
        self, x: Tensor | SparseMatrix | Propagated, edge_index: Tensor | SparseMatrix
    ) -> Tensor:
        """Class scores of every node, nothing sampled.

        Args:
            x (Tensor, SparseMatrix or Propagated): Node features.
            edge_index (Tensor or SparseMatrix): Edges, or the matrix of :meth:`prepare`.
        """
        *_, (_, _, out) = self.layers(x, edge_index)
        return out

    def layers(
        self, x: Tensor | SparseMatrix | Propagated, edge_index: Tensor | SparseMatrix
    ) -> Iterator[Layer]:
        """For every layer its input, its reweighting vector, and its output."""
        given = x.x if isinstance(x, Propagated) else as_features(x)
        matrix = edge_index
        if isinstance(matrix, Tensor):
            matrix = self.matrix(matrix, given.shape[0], given.dtype)
        if self.dense_first and not isinstance(x, Propagated):
            given = spmm(matrix, _dense(given))
        propagation = self.propagation(matrix, given)
        h: Features = given
        for number, (enter, weight) in enumerate(zip(self.inputs, self.weights, strict=True), 1):
            layer_input, s = enter(h)
            h = map_values(lambda v: F.dropout(v, self.dropout, self.training), layer_input)
            out = gated_product(h, weight, s)
            if number > 1 or not self.dense_first:
                out = spmm(propagation, out)
            h = out if number == len(self.weights) else F.relu(out)
            yield layer_input, s, h

    def sampled(self, batch: Tensor, x: Tensor, sampler: Any) -> tuple[Tensor, Tensor]:
        """Class scores of a batch, estimated from samples, and what is added to the loss.

        Args:
            batch (Tensor): Nodes of the training graph, none twice.
            x (Tensor): From :meth:`prepare_training`.
            sampler: Likewise.
        """
        scores = self.node_scores(x)
        layers = self.sample_layers(batch, scores, sampler)
        rows = [batch, *(layer.nodes for layer in layers)]
        real = [None, *(layer.real for layer in layers)]
        h = x[rows[-1]]
        extra = x.new_zeros(())
        for number, (enter, weight) in enumerate(zip(self.inputs, self.weights, strict=True), 1):
            # The rows at hand are one set further down than the layer's output, if it samples.
            place = len(self.weights) - number
            samples = number > 1 or not self.dense_first
            layer_input, s = enter(h, weight=real[place + samples])
            h = F.dropout(layer_input, self.dropout, self.training)
            out = sent = gated_product(h, weight, s)
            if samples:
                matrix = self.sampled_matrix(layers[place], rows[place], scores)
                out = matrix @ sent
                if place == 0:
                    extra = self.extra_loss(matrix, sent, out)
            h = out if number == len(self.weights) else F.relu(out)
        return h, extra

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """The weights of the first layer."""
        return [self.weights[0]]

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for module in self.inputs:
            module.reset_parameters()  # type: ignore[operator]
        for weight in self.weights:
            glorot(weight)


def _dense(x: Tensor | SparseMatrix) -> Tensor:
    return x.to_dense() if isinstance(x, SparseMatrix) or x.layout != torch.strided else x
