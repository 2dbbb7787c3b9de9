"""GAT and Dr-GAT: the model, its layer, and attention coefficients with their gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.inits import glorot, zeros

from drgcn.kernels import LaneFunction, triton_available, with_lanes
from drgcn.nn.base import (
    Features,
    FullBatchModel,
    Layer,
    Norm,
    Reweight,
    check_rates,
    check_sizes,
    gated_product,
    layer_inputs,
)
from drgcn.nn.graph import NodeGroups, neighborhoods, warn_of_edge_weights
from drgcn.nn.sparse import SparseMatrix, SparsePattern, spmm

if triton_available():
    from drgcn.kernels.attention import attention_backward as _cuda_backward
    from drgcn.kernels.attention import attention_forward as _cuda_forward
else:
    _cuda_forward = _cuda_backward = None  # type: ignore[assignment]


class GAT(FullBatchModel):
    r"""The graph attention network of `"Graph Attention Networks"
    <https://arxiv.org/abs/1710.10903>`_ as its authors trained it, plain or with dimensional
    reweighting in front of every layer, shared by the layer's heads.

    Hidden heads are concatenated and activated by ELU, output heads are averaged. The authors'
    settings: ``GAT(d, 64, classes)`` for Cora and Citeseer, ``out_heads=8`` for Pubmed, and
    ``GAT(50, 1024, 121, num_layers=3, heads=4, out_heads=6, dropout=0.0, residual=True)`` for PPI.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each hidden node, all heads together.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of layers. (default: :obj:`2`)
        heads (int, optional): Heads of each hidden layer. (default: :obj:`8`)
        out_heads (int, optional): Heads of the last layer. (default: :obj:`1`)
        dropout (float, optional): Dropout on layer inputs, transformed features and
            coefficients. (default: :obj:`0.6`)
        residual (bool, optional): Residuals around the layers in the middle: neither the first
            nor the last. (default: :obj:`False`)
        norm (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)
        reweight (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)

    Example:
        >>> model = GAT(1433, 64, 7, reweight="dr")
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
        heads: int = 8,
        out_heads: int = 1,
        dropout: float = 0.6,
        residual: bool = False,
        norm: Norm | None = None,
        reweight: Reweight | None = None,
    ) -> None:
        super().__init__()
        check_sizes("GAT", in_channels=in_channels, hidden_channels=hidden_channels)
        check_sizes("GAT", out_channels=out_channels, num_layers=num_layers)
        check_sizes("GAT", heads=heads, out_heads=out_heads)
        check_rates("GAT", dropout=dropout)
        if hidden_channels % heads:
            raise ValueError(
                f"GAT expects hidden_channels to be a multiple of its {heads} heads; found "
                f"{hidden_channels}."
            )
        widths = [in_channels, *[hidden_channels] * (num_layers - 1)]
        self.inputs = layer_inputs(widths, norm=norm, reweight=reweight)
        hidden = [
            GraphAttention(
                width,
                hidden_channels // heads,
                heads,
                dropout=dropout,
                residual=residual and i > 0,
            )
            for i, width in enumerate(widths[:-1])
        ]
        last = GraphAttention(widths[-1], out_channels, out_heads, concat=False, dropout=dropout)
        self.convs = torch.nn.ModuleList([*hidden, last])

    @staticmethod
    def matrix(
        edge_index: Tensor,
        num_nodes: int,
        dtype: torch.dtype,
        edge_weight: Tensor | None = None,
    ) -> SparsePattern:
        """Return the neighbourhoods; attention computes the values."""
        warn_of_edge_weights("GAT", edge_weight)
        return neighborhoods(edge_index, num_nodes)

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """Return all parameters of the layers, biases included."""
        # NOTE[DIFF] The authors' code means to spare the biases, but compares names that never
        # match, so that it decays them. So do we: the published numbers were made that way.
        return self.convs.parameters()

    def run_layers(
        self, x: Features, matrix: SparsePattern, groups: NodeGroups | None
    ) -> Iterator[Layer]:
        """Run the layers one after the other."""
        for number, (enter, conv) in enumerate(zip(self.inputs, self.convs, strict=True), 1):
            layer_input, s = enter(x, groups)
            out = conv(layer_input, matrix, s, groups)
            x = out if number == len(self.convs) else F.elu(out)
            yield layer_input, s, x


class GraphAttention(torch.nn.Module):
    r"""The graph attention layer from `"Graph Attention Networks"
    <https://arxiv.org/abs/1710.10903>`_. For each head, with :math:`d` for a dropout mask,

    .. math::
        \mathbf{z}_i &= d(\mathbf{x}_i) \mathbf{S} \mathbf{W}, \quad
        \alpha_{ij} = \mathrm{softmax}_j \, \mathrm{LeakyReLU}(\mathbf{a}_t^\top \mathbf{z}_i
        + b_t + \mathbf{a}_s^\top \mathbf{z}_j + b_s) \\
        \mathbf{x}'_i &= \sum_j d(\alpha_{ij}) \, d(\mathbf{z}_j) + \mathbf{b}.

    It differs from :class:`torch_geometric.nn.GATConv` in what the authors' code does: every
    head drops its own input, transformed features are dropped too, scores have biases, and the
    residual is a map with a bias of the dropped input. It also takes sparse features, and a gate.

    Args:
        in_channels (int): Size of each input node.
        out_channels (int): Size of each output node, per head.
        heads (int, optional): Number of heads. (default: :obj:`1`)
        concat (bool, optional): Concatenate the heads, or else average them.
            (default: :obj:`True`)
        negative_slope (float, optional): Slope of LeakyReLU. (default: :obj:`0.2`)
        dropout (float, optional): Rate of all three masks. (default: :obj:`0.0`)
        residual (bool, optional): Add a linear map of the input. (default: :obj:`False`)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        *,
        residual: bool = False,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.negative_slope = negative_slope
        self.dropout = dropout

        def empty(*shape: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.empty(heads, *shape))

        self.weight = empty(in_channels, out_channels)
        self.att_src, self.att_src_bias = empty(out_channels, 1), empty(1)
        self.att_dst, self.att_dst_bias = empty(out_channels, 1), empty(1)
        self.bias = empty(out_channels)
        self.res_weight = empty(in_channels, out_channels) if residual else None
        self.res_bias = empty(out_channels) if residual else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        for weight in (self.weight, self.att_src, self.att_dst, self.res_weight):
            glorot(weight)
        for bias in (self.att_src_bias, self.att_dst_bias, self.bias, self.res_bias):
            zeros(bias)

    def forward(
        self,
        x: Features,
        pattern: SparsePattern,
        s: Tensor | None = None,
        groups: NodeGroups | None = None,
    ) -> Tensor:
        """Transform every head's input, then average over each node's neighbours.

        Args:
            x (Tensor or SparseMatrix): Node features.
            pattern (SparsePattern): Neighbourhoods, each node its own neighbour.
            s (Tensor, optional): The gate of the features, shared by all heads.
            groups (NodeGroups, optional): The graph of each node, if ``s`` differs by graph.
        """
        x = self._drop_per_head(x)
        z = self._transform(x, self.weight, s, groups)  # [heads, nodes, out]
        target = (z @ self.att_dst).squeeze(-1) + self.att_dst_bias
        source = (z @ self.att_src).squeeze(-1) + self.att_src_bias
        alpha = attention_coefficients(target, source, pattern, self.negative_slope)
        alpha = F.dropout(alpha, self.dropout, self.training)
        z = F.dropout(z, self.dropout, self.training)
        out = spmm(SparseMatrix(pattern, alpha), z) + self.bias[:, None]
        if self.res_weight is not None and self.res_bias is not None:
            out = out + self._transform(x, self.res_weight, s, groups) + self.res_bias[:, None]
        return out.transpose(0, 1).flatten(1) if self.concat else out.mean(0)

    def _drop_per_head(self, x: Features) -> Features:
        """The input as every head sees it: with a first axis for heads if they differ."""
        if not self.training or self.dropout == 0:
            return x
        values = x.values if isinstance(x, SparseMatrix) else x
        values = F.dropout(values.expand(self.heads, *values.shape), self.dropout)
        return x.with_values(values) if isinstance(x, SparseMatrix) else values

    def _transform(
        self, x: Features, weight: Tensor, s: Tensor | None, groups: NodeGroups | None
    ) -> Tensor:
        per_head = x.values.dim() == 2 if isinstance(x, SparseMatrix) else x.dim() == 3
        if per_head:
            return gated_product(x, weight, s, groups)
        wide = weight.transpose(0, 1).flatten(1)  # [in, heads * out]
        product = gated_product(x, wide, s, groups)
        return product.unflatten(1, (self.heads, self.out_channels)).transpose(0, 1)

    def extra_repr(self) -> str:
        """Widths and heads, as in PyG."""
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"


def attention_coefficients(
    target: Tensor, source: Tensor, pattern: SparsePattern, negative_slope: float = 0.2
) -> Tensor:
    r"""Softmax over each node's neighbours of
    :math:`\mathrm{LeakyReLU}(t_i + s_j)`, for every head.

    Args:
        target (Tensor): Scores :math:`t` of nodes as targets ``[heads, nodes]``.
        source (Tensor): Scores :math:`s` of nodes as sources ``[heads, nodes]``.
        pattern (SparsePattern): Row ``i`` holds the neighbours of node ``i``.
        negative_slope (float, optional): Slope of LeakyReLU, positive.

    Shapes:
        - **output:** one coefficient per head and stored entry ``[heads, nnz]``
    """
    if target.shape != source.shape or target.dim() != 2 or target.size(1) != pattern.shape[0]:
        raise ValueError(
            f"attention_coefficients expects two scores of shape [heads, {pattern.shape[0]}]; "
            f"found {list(target.shape)} and {list(source.shape)}."
        )
    return _Attention.apply(target, source, pattern, negative_slope)


class _Attention(LaneFunction):
    """The coefficients for any number of heads; lanes of ``vmap`` are more heads."""

    @staticmethod
    def forward(target: Tensor, source: Tensor, pattern: SparsePattern, slope: float) -> Tensor:
        if target.is_cuda and _cuda_forward is not None:
            return _cuda_forward(target, source, pattern, slope)
        # Entries first and lanes last: then a neighbourhood is a run of rows.
        scores = F.leaky_relu(_scores(target, source, pattern), slope)  # [nnz, lanes]
        top = torch.segment_reduce(scores, "max", offsets=pattern.crow, axis=0)
        weights = (scores - top.index_select(0, pattern.row)).exp()
        total = torch.segment_reduce(weights, "sum", offsets=pattern.crow, axis=0)
        return (weights / total.index_select(0, pattern.row)).t().contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        target, source, ctx.pattern, ctx.slope = inputs
        ctx.save_for_backward(target, source, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        target, source, alpha = ctx.saved_tensors
        grads = _AttentionGradient.apply(grad, alpha, target, source, ctx.pattern, ctx.slope)
        return *grads, None, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        target: Tensor,
        source: Tensor,
        pattern: SparsePattern,
        slope: float,
    ) -> tuple[Tensor, int]:
        target, source = _merge_lanes(info.batch_size, in_dims, target, source)
        return _Attention.apply(target, source, pattern, slope).unflatten(
            0, (info.batch_size, -1)
        ), 0


class _AttentionGradient(LaneFunction):
    """The backward pass as a function of its own, so that vmap can take it in lanes too."""

    @staticmethod
    def forward(
        grad: Tensor,
        alpha: Tensor,
        target: Tensor,
        source: Tensor,
        pattern: SparsePattern,
        slope: float,
    ) -> tuple[Tensor, Tensor]:
        if grad.is_cuda and _cuda_backward is not None:
            return _cuda_backward(grad, alpha, target, source, pattern, slope)
        grad, alpha = grad.t(), alpha.t()  # [nnz, lanes]
        weighted = (alpha * grad).contiguous()
        mean = torch.segment_reduce(weighted, "sum", offsets=pattern.crow, axis=0)
        score = weighted - alpha * mean.index_select(0, pattern.row)
        score = torch.where(_scores(target, source, pattern) > 0, score, score * slope)
        by_column = score.index_select(0, pattern.to_transpose)
        sums = (
            torch.segment_reduce(score, "sum", offsets=pattern.crow, axis=0),
            torch.segment_reduce(by_column, "sum", offsets=pattern.transpose_crow, axis=0),
        )
        return sums[0].t().contiguous(), sums[1].t().contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        grad, alpha, target, source, ctx.pattern, ctx.slope = inputs
        ctx.save_for_backward(grad, alpha, target, source)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # Second gradients, in plain operations, which have gradients of their own.
        grad, alpha, target, source = ctx.saved_tensors
        row, col = ctx.pattern.row, ctx.pattern.col.long()

        def at_entries(of_rows: Tensor, of_columns: Tensor) -> Tensor:
            return of_rows.index_select(1, row) + of_columns.index_select(1, col)

        def mean(of_entries: Tensor) -> Tensor:
            total = torch.zeros_like(target).index_add(1, row, alpha * of_entries)
            return total.index_select(1, row)

        score = at_entries(*grads)
        score = torch.where(at_entries(target, source) > 0, score, score * ctx.slope)
        score_mean = mean(score)
        of_alpha = score * (grad - mean(grad)) - grad * score_mean
        return alpha * (score - score_mean), of_alpha, None, None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *arguments: Any
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        tensors = _merge_lanes(info.batch_size, in_dims, *arguments[:4])
        outputs = _AttentionGradient.apply(*tensors, *arguments[4:])
        target, source = (out.unflatten(0, (info.batch_size, -1)) for out in outputs)
        return (target, source), (0, 0)


def _scores(target: Tensor, source: Tensor, pattern: SparsePattern) -> Tensor:
    """Sums of scores where entries are stored ``[nnz, lanes]``."""
    rows = target.t().contiguous().index_select(0, pattern.row)
    return rows + source.t().contiguous().index_select(0, pattern.col)


def _merge_lanes(lanes: int, in_dims: tuple[int | None, ...], *tensors: Tensor) -> list[Tensor]:
    """Tensors ``[heads, ...]`` with an axis of lanes as ``[lanes * heads, ...]``."""
    return [
        with_lanes(x, dim, lanes).flatten(0, 1) for x, dim in zip(tensors, in_dims, strict=False)
    ]
