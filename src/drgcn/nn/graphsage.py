"""GraphSAGE and Dr-GraphSAGE, trained on sampled neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.inits import glorot, zeros
from torch_geometric.utils import remove_self_loops

from drgcn.nn.base import (
    Features,
    Layer,
    Norm,
    Reweight,
    ReweightedModel,
    check_rates,
    check_sizes,
    compress,
    dropout,
    gated_product,
    lasting_features,
    lasting_groups,
    layer_inputs,
    made_once,
)
from drgcn.nn.graph import NodeGroups, normalized_adjacency, warn_of_edge_weights
from drgcn.nn.sparse import SparseMatrix, spmm
from drgcn.sampling import CSRGraph, NeighborTree


class GraphSAGE(ReweightedModel):
    r"""The mean aggregator of `"Inductive Representation Learning on Large Graphs"
    <https://arxiv.org/abs/1706.02216>`_ in the two forms that published numbers come from, plain
    or with dimensional reweighting:

    - ``"concat"``, the authors' own: :math:`[\mathbf{x}_v \mathbf{W}_1 \,\|\,
      \mathrm{mean}(\mathbf{x}_u) \mathbf{W}_2]`, ReLU between the layers, rows of unit length
      before a classifier with a bias;
    - ``"simple"``, as graphsage-simple computes it:
      :math:`\mathrm{ReLU}(\mathrm{mean}(\mathbf{x}_u) \mathbf{W})`, in which a node's own features
      have no part, and a classifier without a bias.

    A node without neighbours has a mean of zero. Training draws neighbours, ``forward`` takes all.
    Train with :func:`drgcn.fit` and a ``batch_size``, or on the batches of a PyG loader; on
    several graphs, ``fit`` trains on all neighbours.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each hidden node; both halves together in
            :obj:`"concat"`.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of layers, the classifier apart. (default: :obj:`2`)
        form (str, optional): :obj:`"concat"` or :obj:`"simple"`. (default: :obj:`"concat"`)
        fan_outs (sequence, optional): Neighbours drawn per node, nearest first.
            (default: :obj:`(10, 25)`)
        replace (bool, optional): Draw neighbours with replacement. (default: :obj:`False`)
        dropout (float, optional): Dropout on the input of every layer. (default: :obj:`0.0`)
        norm (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)
        reweight (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        form: Literal["concat", "simple"] = "concat",
        fan_outs: Sequence[int] = (10, 25),
        replace: bool = False,
        dropout: float = 0.0,
        norm: Norm | None = None,
        reweight: Reweight | None = None,
    ) -> None:
        super().__init__()
        check_sizes("GraphSAGE", in_channels=in_channels, hidden_channels=hidden_channels)
        check_sizes("GraphSAGE", out_channels=out_channels, num_layers=num_layers)
        check_rates("GraphSAGE", dropout=dropout)
        if form not in ("concat", "simple"):
            raise ValueError(f"GraphSAGE expects the form 'concat' or 'simple'; found {form!r}.")
        if len(fan_outs) != num_layers:
            raise ValueError(
                f"GraphSAGE expects one fan-out per layer, {num_layers}; found {list(fan_outs)}."
            )
        if form == "concat" and hidden_channels % 2:
            raise ValueError(
                f"GraphSAGE expects an even width for two halves; found {hidden_channels}."
            )
        self.concat = form == "concat"
        self.fan_outs, self.replace, self.dropout = tuple(fan_outs), replace, dropout
        widths = [in_channels, *[hidden_channels] * num_layers]
        # NOTE[PAPER] Which layers of its GraphSAGE are reweighted is not stated; here those that
        # look at neighbours are, the classifier is not.
        self.inputs = layer_inputs(widths[:-1], norm=norm, reweight=reweight)
        # In "concat" the two halves of a layer's weights stand side by side.
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.empty(a, b)) for a, b in pairwise(widths)
        )
        self.classifier = torch.nn.Parameter(torch.empty(hidden_channels, out_channels))
        self.bias = torch.nn.Parameter(torch.empty(out_channels)) if self.concat else None
        self.reset_parameters()

    def prepare(self, data: Data) -> tuple[Any, ...]:
        """Return the arguments of ``forward``, computed once; the graph of each node is one of
        them where ``data`` is a batch of several."""
        warn_of_edge_weights("GraphSAGE", data.get("edge_weight"))
        matrix = _mean_matrix(data.edge_index, data.num_nodes, data.x.dtype)
        return compress(data.x), matrix, NodeGroups.of(data.get("batch"), data.num_nodes)

    def prepare_training(self, data: Data) -> tuple[Any, ...]:
        """Return the arguments of :meth:`sampled` besides the batch."""
        x = data.x if data.x.layout == torch.strided else data.x.to_dense()
        edge_index, _ = remove_self_loops(data.edge_index)  # as in the matrix of means
        return x, CSRGraph.from_edge_index(edge_index, data.num_nodes)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        edge_index: Tensor | SparseMatrix,
        batch: Tensor | NodeGroups | None = None,
    ) -> Tensor:
        """Return the class scores of every node, from all its neighbours.

        Args:
            x (Tensor or SparseMatrix): Node features.
            edge_index (Tensor or SparseMatrix): Edges, or the matrix of :meth:`prepare`.
            batch (Tensor or NodeGroups, optional): The graph of each node; every graph then has
                its own reweighting vector. (default: one graph)
        """
        *_, (_, _, h) = self.layers(x, edge_index, batch)
        return self._classify(h)

    def layers(
        self,
        x: Tensor | SparseMatrix,
        edge_index: Tensor | SparseMatrix,
        batch: Tensor | NodeGroups | None = None,
    ) -> Iterator[Layer]:
        """Yield the input, the reweighting vector and the output of every layer."""
        h: Features = lasting_features(x)
        nodes, dtype = h.shape[0], h.dtype
        groups = lasting_groups(batch, nodes)
        matrix = edge_index
        if isinstance(matrix, Tensor):
            edges, key = matrix, ("means", nodes, dtype)
            matrix = made_once(edges, key, lambda: _mean_matrix(edges, nodes, dtype))
        for number, (enter, weight) in enumerate(zip(self.inputs, self.weights, strict=True), 1):
            layer_input, s = enter(h, groups)
            h = dropout(layer_input, self.dropout, self.training)
            out = gated_product(h, weight, s, groups)
            if self.concat:
                own, sent = out.chunk(2, dim=-1)
                out = torch.cat([own, spmm(matrix, sent.contiguous())], dim=-1)
            else:
                out = spmm(matrix, out)
            h = self._activate(out, number)
            yield layer_input, s, h

    def sampled(self, batch: Tensor, x: Tensor, graph: CSRGraph) -> tuple[Tensor, Tensor]:
        """Return the class scores of a batch from sampled neighbours, and zero to add to the loss.

        Args:
            batch (Tensor): Nodes.
            x (Tensor): From :meth:`prepare_training`.
            graph (CSRGraph): Likewise.
        """
        tree = NeighborTree.sample(graph, batch, self.fan_outs, self.replace)
        needed = range(len(tree.nodes)) if self.concat else [len(tree.nodes) - 1]
        levels = {level: x[tree.nodes[level]] for level in needed}
        for number, (enter, weight) in enumerate(zip(self.inputs, self.weights, strict=True), 1):
            # All rows that enter the layer are normalised and pooled together.
            rows = torch.cat([h.flatten(0, -2) for h in levels.values()])
            real = torch.cat([tree.masks[level].flatten() for level in levels])
            rows, s = enter(rows, weight=real)
            rows = F.dropout(rows, self.dropout, self.training)
            pieces = rows.split([h.flatten(0, -2).size(0) for h in levels.values()])
            split = zip(levels.items(), pieces, strict=True)
            levels = {level: piece.view(h.shape) for (level, h), piece in split}
            above = [level for level in levels if level > 0]
            means = {level - 1: tree.mean(levels[level]) for level in above}
            levels = {
                level: self._activate(self._layer(levels.get(level), mean, weight, s), number)
                for level, mean in means.items()
            }
        return self._classify(levels[0]), x.new_zeros(())

    def _layer(self, own: Tensor | None, mean: Tensor, weight: Tensor, s: Tensor | None) -> Tensor:
        if not self.concat:
            return gated_product(mean, weight, s)
        assert own is not None
        halves = weight.chunk(2, dim=-1)
        return torch.cat([gated_product(own, halves[0], s), gated_product(mean, halves[1], s)], -1)

    def _activate(self, out: Tensor, number: int) -> Tensor:
        last = number == len(self.weights)
        return out if last and self.concat else F.relu(out)

    def _classify(self, h: Tensor) -> Tensor:
        if self.bias is None:
            return h @ self.classifier
        return F.normalize(h, dim=-1) @ self.classifier + self.bias

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """Return all weights."""
        return [*self.weights, self.classifier]

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        for module in self.inputs:
            module.reset_parameters()  # type: ignore[operator]
        for weight in self.weights:
            for half in weight.chunk(2, dim=-1) if self.concat else [weight]:
                glorot(half)
        glorot(self.classifier)
        zeros(self.bias)


def _mean_matrix(edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> SparseMatrix:
    return normalized_adjacency(
        edge_index, num_nodes, normalization="row", self_loops=False, dtype=dtype
    )
