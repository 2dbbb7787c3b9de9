"""FastGCN and AS-GCN: GCNs trained on samples of whole layers, plain or reweighted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.inits import glorot

from drgcn.kernels import LaneFunction
from drgcn.nn.base import (
    Features,
    Layer,
    Norm,
    Reweight,
    ReweightedModel,
    as_features,
    check_rates,
    check_sizes,
    compress,
    dropout,
    gated_product,
    layer_inputs,
)
from drgcn.nn.graph import normalized_adjacency, warn_of_edge_weights
from drgcn.nn.sparse import SparseMatrix, spmm
from drgcn.sampling import (
    AdaptiveSampler,
    CSRGraph,
    ImportanceSampler,
    LayerDependentSampler,
    LayerSample,
)

# Up to so many nodes, scoring all of them once is cheaper than gathering rows for every layer.
_SMALL_TABLE = 2**15


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
        self.inputs = layer_inputs(widths[:-1], norm=norm, reweight=reweight)
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.empty(a, b)) for a, b in pairwise(widths)
        )

    @abstractmethod
    def sampler(self, graph: CSRGraph) -> Any:
        """Return the sampler of layers for the propagation matrix of the training graph."""

    @abstractmethod
    def sample_layers(self, batch: Tensor, scores: Any, sampler: Any) -> list[LayerSample]:
        """Draw all sampled layers, top layer first."""

    def node_scores(self, x: Tensor) -> Any:
        """Return the scores that nodes are drawn by, if the model has any."""

    def propagation(self, matrix: SparseMatrix, x: Tensor | SparseMatrix) -> SparseMatrix:
        """Return the matrix of the sampled layers, for the features of all nodes."""
        return matrix

    def sampled_matrix(self, layer: LayerSample, rows: Tensor, scores: Any) -> Tensor:
        """Return the weights of a sampled layer."""
        return layer.matrix

    def extra_loss(self, matrix: Tensor, h: Tensor, out: Tensor) -> Tensor:
        """Return the term that the top layer adds to the loss."""
        return out.new_zeros(())

    def matrix(self, edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> SparseMatrix:
        """Return the propagation matrix."""
        return normalized_adjacency(edge_index, num_nodes, dtype=dtype)

    def prepare(self, data: Data) -> tuple[Any, ...]:
        """Return the arguments of ``forward``, computed once."""
        warn_of_edge_weights(type(self).__name__, data.get("edge_weight"))
        matrix = self.matrix(data.edge_index, data.num_nodes, data.x.dtype)
        if self.dense_first:
            return Propagated(spmm(matrix, _dense(data.x))), matrix
        return compress(data.x), matrix

    def prepare_training(self, data: Data) -> tuple[Any, ...]:
        """Return the arguments of :meth:`sampled` besides the batch, from the training graph."""
        matrix = self.matrix(data.edge_index, data.num_nodes, data.x.dtype)
        x = _dense(data.x)
        pattern = matrix.pattern
        graph = CSRGraph(pattern.crow, pattern.col, data.num_nodes, matrix.values)
        return spmm(matrix, x) if self.dense_first else x, self.sampler(graph)

    def forward(
        self, x: Tensor | SparseMatrix | Propagated, edge_index: Tensor | SparseMatrix
    ) -> Tensor:
        """Return the class scores of every node; nothing is sampled.

        Args:
            x (Tensor, SparseMatrix or Propagated): Node features.
            edge_index (Tensor or SparseMatrix): Edges, or the matrix of :meth:`prepare`.
        """
        *_, (_, _, out) = self.layers(x, edge_index)
        return out

    def layers(
        self, x: Tensor | SparseMatrix | Propagated, edge_index: Tensor | SparseMatrix
    ) -> Iterator[Layer]:
        """Yield the input, the reweighting vector and the output of every layer."""
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
            h = dropout(layer_input, self.dropout, self.training)
            out = gated_product(h, weight, s)
            if number > 1 or not self.dense_first:
                out = spmm(propagation, out)
            h = out if number == len(self.weights) else F.relu(out)
            yield layer_input, s, h

    def sampled(self, batch: Tensor, x: Tensor, sampler: Any) -> tuple[Tensor, Tensor]:
        """Return class scores of a batch, estimated from samples, and the extra term of the loss.

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
            # The input rows of a layer that samples are one set below those of its output.
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
        """Return the weights of the first layer."""
        return [self.weights[0]]

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        for module in self.inputs:
            module.reset_parameters()  # type: ignore[operator]
        for weight in self.weights:
            glorot(weight)


def _dense(x: Tensor | SparseMatrix) -> Tensor:
    return x.to_dense() if isinstance(x, SparseMatrix) or x.layout != torch.strided else x


class FastGCN(LayerSampledGCN):
    r"""The model of `"FastGCN: Fast Learning with Graph Convolutional Networks via Importance
    Sampling" <https://arxiv.org/abs/1801.10247>`_, in the form its published numbers come from:
    the first layer takes :math:`\tilde{\mathbf{A}} \mathbf{X}`, computed once, and every further
    layer draws its senders by importance. Plain or with dimensional reweighting.

    Train it with :func:`drgcn.fit` and a ``batch_size``, or in a loop of your own with
    :meth:`prepare_training` and :meth:`sampled`.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each hidden node.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of layers. (default: :obj:`2`)
        count (int, optional): Nodes drawn for every sampled layer. (default: :obj:`400`)
        sampler (str, optional): :obj:`"importance"` as in FastGCN, or
            :obj:`"layer-dependent"` as in LADIES. (default: :obj:`"importance"`)
        candidates (str, optional): Draw among the nodes that send to the :obj:`"rows"` of the
            batch, or among :obj:`"all"`; for importance alone. (default: :obj:`"rows"`)
        power (int, optional): Draw by a column's norm (1) or squared norm (2); for importance
            alone. (default: :obj:`1`)
        replace (bool, optional): Draw with replacement. (default: :obj:`False`)
        renormalize (bool, optional): Exact weights; see
            :class:`~drgcn.sampling.ImportanceSampler`. (default: :obj:`True`)
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
        count: int = 400,
        sampler: Literal["importance", "layer-dependent"] = "importance",
        candidates: Literal["rows", "all"] = "rows",
        power: Literal[1, 2] = 1,
        replace: bool = False,
        renormalize: bool = True,
        dropout: float = 0.0,
        norm: Norm | None = None,
        reweight: Reweight | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers=num_layers,
            dropout=dropout,
            norm=norm,
            reweight=reweight,
            dense_first=True,
        )
        check_sizes("FastGCN", count=count)
        if sampler not in ("importance", "layer-dependent"):
            raise ValueError(
                f"FastGCN expects sampler 'importance' or 'layer-dependent'; found {sampler!r}."
            )
        self.count, self.kind = count, sampler
        self.candidates, self.power = candidates, power
        self.replace, self.renormalize = replace, renormalize
        self.reset_parameters()

    def sampler(self, graph: CSRGraph) -> ImportanceSampler | LayerDependentSampler:
        """Return the sampler of layers."""
        if self.kind == "layer-dependent":
            return LayerDependentSampler(graph, self.count, self.replace)
        return ImportanceSampler.of(
            graph,
            self.count,
            power=self.power,
            candidates=self.candidates,
            replace=self.replace,
            renormalize=self.renormalize,
        )

    def sample_layers(
        self, batch: Tensor, scores: None, sampler: ImportanceSampler | LayerDependentSampler
    ) -> list[LayerSample]:
        """Draw all layers but the first, top layer first."""
        found: list[LayerSample] = []
        rows = batch
        for _ in self.weights[1:]:
            found.append(sampler.sample(rows, distinct=not found))
            rows = found[-1].nodes
        return found


class ASGCN(LayerSampledGCN):
    r"""The model of `"Adaptive Sampling Towards Fast Graph Representation Learning"
    <https://arxiv.org/abs/1809.05343>`_, as its code computes it: layers weighted by

    .. math::
        a_{vu} (\mathrm{ReLU}(\mathbf{x}_v^\top \mathbf{w}_1 + \mathbf{x}_u^\top \mathbf{w}_2)
        + 1),

    a sampler that draws by the same scores (:class:`~drgcn.sampling.AdaptiveSampler`), and the
    variance of the top layer in the loss, through which the scores are learnt. Plain or with
    dimensional reweighting.

    Train it with :func:`drgcn.fit` and a ``batch_size``, or in a loop of your own with
    :meth:`prepare_training` and :meth:`sampled`.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each hidden node.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of layers. (default: :obj:`2`)
        form (str, optional): :obj:`"adapt"`: all layers are sampled; :obj:`"mix"`: the first one
            takes :math:`\tilde{\mathbf{A}} \mathbf{X}`, computed once. (default: :obj:`"adapt"`)
        count (int, optional): Nodes drawn for every sampled layer. (default: :obj:`128`)
        max_degree (int, optional): Entries per row of the training matrix, chosen once at
            random where there are more. (default: :obj:`32`)
        variance (float, optional): Coefficient of the variance in the loss.
            (default: :obj:`0.5`)
        extra_identity (bool, optional): Add :math:`\mathbf{I}` to the normalised matrix once
            more, as the original does on Pubmed. (default: :obj:`False`)
        drop_duplicates (bool, optional): A quirk of the original; see
            :class:`~drgcn.sampling.AdaptiveSampler`. (default: :obj:`False`)
        swap_scores (bool, optional): A quirk of the original: the sampler takes
            :math:`\mathbf{w}_2` for rows and :math:`\mathbf{w}_1` for senders.
            (default: :obj:`False`)
        divide_by_nodes (bool, optional): A quirk of the original: at inference each sampled
            layer is divided by the number of nodes. (default: :obj:`False`)
        divide_variance (bool, optional): A quirk of the original: what a draw contributes is
            compared with the mean after division by the number of draws.
            (default: :obj:`False`)
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
        form: Literal["adapt", "mix"] = "adapt",
        count: int = 128,
        max_degree: int = 32,
        variance: float = 0.5,
        extra_identity: bool = False,
        drop_duplicates: bool = False,
        swap_scores: bool = False,
        divide_by_nodes: bool = False,
        divide_variance: bool = False,
        dropout: float = 0.0,
        norm: Norm | None = None,
        reweight: Reweight | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            num_layers=num_layers,
            dropout=dropout,
            norm=norm,
            reweight=reweight,
            dense_first=form == "mix",
        )
        check_sizes("ASGCN", count=count, max_degree=max_degree)
        if form not in ("adapt", "mix"):
            raise ValueError(f"ASGCN expects the form 'adapt' or 'mix'; found {form!r}.")
        self.count, self.max_degree, self.variance = count, max_degree, variance
        self.extra_identity = extra_identity
        self.drop_duplicates, self.swap_scores = drop_duplicates, swap_scores
        self.divide_by_nodes, self.divide_variance = divide_by_nodes, divide_variance
        self.scores = torch.nn.Parameter(torch.empty(in_channels, 2))  # of rows, of senders
        self.reset_parameters()

    def matrix(self, edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> SparseMatrix:
        """Return the propagation matrix."""
        matrix = super().matrix(edge_index, num_nodes, dtype)
        if not self.extra_identity:
            return matrix
        loop = matrix.pattern.row == matrix.pattern.col
        return matrix.with_values(matrix.values + loop.to(dtype))

    def sampler(self, graph: CSRGraph) -> AdaptiveSampler:
        """Return the sampler of layers."""
        return AdaptiveSampler(graph.trimmed(self.max_degree), self.count, self.drop_duplicates)

    def node_scores(self, x: Tensor) -> NodeScores:
        """Return the scores of nodes, which decide draws and weights."""
        return NodeScores(x, self.scores)

    def sample_layers(
        self, batch: Tensor, scores: NodeScores, sampler: AdaptiveSampler
    ) -> list[LayerSample]:
        """Draw all sampled layers, top layer first."""
        # NOTE[DIFF] Not swapped by default: in AS-GCN's code the two vectors change roles
        # between the sampler and the layer.
        of_rows, of_senders = (1, 0) if self.swap_scores else (0, 1)
        found: list[LayerSample] = []
        rows = batch
        for _ in self.weights[1:] if self.dense_first else self.weights:
            layer = sampler.sample(
                rows,
                scores(rows, of_rows).sum(),
                lambda nodes: scores(nodes, of_senders),
                distinct=not found,
            )
            found.append(layer)
            rows = layer.nodes
        return found

    def propagation(self, matrix: SparseMatrix, x: Features) -> SparseMatrix:
        """Return the matrix with every entry weighted by the scores of its ends."""
        scores = spmm(x, self.scores) if isinstance(x, SparseMatrix) else x @ self.scores
        pattern = matrix.pattern
        factor = F.relu(scores[pattern.row, 0] + scores[pattern.col.long(), 1]) + 1
        if self.divide_by_nodes:
            # NOTE[DIFF] Off by default: AS-GCN's code takes all nodes for as many draws of
            # probability one. Without Dr or norms only the loss notices.
            factor = factor / matrix.shape[1]
        return matrix.with_values(matrix.values * factor)

    def sampled_matrix(self, layer: LayerSample, rows: Tensor, scores: NodeScores) -> Tensor:
        """Return the weights of a sampled layer, each weighted by the scores of its ends."""
        both = scores(rows, 0)[:, None] + scores(layer.nodes, 1)[None]
        return layer.matrix * (F.relu(both) + 1)

    def extra_loss(self, matrix: Tensor, h: Tensor, out: Tensor) -> Tensor:
        """Return the variance, over draws, of the estimate of the batch's mean from one draw."""
        # NOTE[DIFF] AS-GCN's code leaves the factor of the number of draws out (an option here),
        # so that its term is not a variance but mostly the squared mean.
        draws = 1 if self.divide_variance else self.count
        each = draws * matrix.mean(0)[:, None] * h
        return self.variance * (each - out.mean(0)).square().mean()

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        super().reset_parameters()
        glorot(self.scores)


class NodeScores:
    """``x @ weight`` by rows.

    Args:
        x: Features of all nodes ``[nodes, d]``.
        weight: One column per score ``[d, scores]``.
    """

    def __init__(self, x: Tensor, weight: Tensor) -> None:
        self.x, self.weight = x, weight
        self.table = shared_product(x, weight) if len(x) <= _SMALL_TABLE else None

    def __call__(self, nodes: Tensor, column: int) -> Tensor:
        """Return one of the scores of some nodes."""
        if self.table is not None:
            return self.table[:, column][nodes]
        return self.x[nodes] @ self.weight[:, column]


def shared_product(x: Tensor, weight: Tensor) -> Tensor:
    """Return ``x @ weight`` for a constant ``x``.

    Under :func:`torch.vmap` over weights alone, the lanes' weights stand side by side and the
    table is read once; torch's own rule reads it once per lane.
    """
    return _Product.apply(x, weight)


class _Product(LaneFunction):
    """``x @ weight`` without a gradient for ``x``."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return x @ weight

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (x,) = ctx.saved_tensors
        return None, _TransposedProduct.apply(x, grad)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, weight: Tensor) -> Any:
        return _side_by_side(_Product, lambda a, b: a @ b, info, in_dims, x, weight)


class _TransposedProduct(LaneFunction):
    """``x.T @ grad``, the gradient of the weights, as a function of its own for ``vmap``."""

    @staticmethod
    def forward(x: Tensor, grad: Tensor) -> Tensor:
        return x.t() @ grad

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, int | None], x: Tensor, grad: Tensor) -> Any:
        return _side_by_side(
            _TransposedProduct, lambda a, b: a.transpose(-1, -2) @ b, info, in_dims, x, grad
        )


def _side_by_side(
    function: Any, product: Any, info: Any, in_dims: tuple[int | None, int | None], *pair: Tensor
) -> tuple[Tensor, int]:
    x, lanes = pair
    if in_dims[0] is not None or in_dims[1] is None:
        first = [v if d is None else v.movedim(d, 0) for v, d in zip(pair, in_dims, strict=True)]
        return product(*first), 0
    columns = lanes.movedim(in_dims[1], 1).flatten(1)  # [d, lanes * k]
    return function.apply(x, columns).unflatten(1, (info.batch_size, -1)), 1


@dataclass(frozen=True, eq=False)
class Propagated:
    """The product of a propagation matrix and features, computed once."""

    x: Tensor

    def to(self, device: torch.device | str) -> Propagated:
        """The same on another device."""
        return Propagated(self.x.to(device))
