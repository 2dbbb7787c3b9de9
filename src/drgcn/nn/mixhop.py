"""MixHop as its authors compute it, plain or with dimensional reweighting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.inits import glorot

from drgcn.errors import warn
from drgcn.nn.base import (
    Features,
    FullBatchModel,
    Layer,
    Reweight,
    check_rates,
    check_sizes,
    dropout,
    gated_product,
    layer_inputs,
    map_values,
)
from drgcn.nn.graph import NodeGroups, normalized_adjacency
from drgcn.nn.sparse import SparseMatrix, spmm

_SEGMENT_PENALTY = 1e-3
# That of tf.nn.l2_normalize, under the root; rows of zeros stay zero.
_SMALLEST_SQUARE = 1e-12


class MixHop(FullBatchModel):
    r"""The network of `"MixHop: Higher-Order Graph Convolutional Architectures via Sparsified
    Neighborhood Mixing" <https://arxiv.org/abs/1905.00067>`_ as its authors' code has it, plain
    or with dimensional reweighting in front of every layer:

    .. math::
        \mathbf{H}^{l} = \mathrm{ReLU}\Big(\mathrm{BN}\Big(\big\Vert_j \, \tilde{\mathbf{A}}^j
        \, \mathrm{dropout}(\mathbf{H}^{l-1}) \mathbf{S}^{l} \mathbf{W}_j^{l}\Big)\Big),

    where :math:`\mathbf{H}^0` are the binarised features, whose rows are scaled to length one
    after dropout, and the last layer is a :class:`MixHopReadout`. Batch norm is a
    :class:`StatelessBatchNorm`; there are no biases beside its own.

    The authors train by plain gradient descent, and lower the rate by 1 % of its start every 40
    steps (Pubmed: 20). Widths, rate and decay: Cora ``(24, 18, 18)``, ``(0, 7, 7)``, 1, 5e-3;
    Citeseer ``(20, 20, 20)``, ``(6, 6, 6)``, 0.25, 5e-2; Pubmed ``(17, 23, 20)``, ``(3, 6, 3)``,
    0.5, 5e-3.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (sequence of int): Width of each power in a hidden layer, from power 0
            on; zero leaves a power out.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of layers. (default: :obj:`2`)
        readout_channels (sequence of int, optional): Width of each power in the last layer; the
            sum is a multiple of ``out_channels``. (default: one column per power and class)
        dropout (float, optional): Dropout on the features; on sparse ones, of the non-zeros.
            (default: :obj:`0.5`)
        hidden_dropout (float, optional): Dropout on the input of later layers.
            (default: :obj:`0.9`)
        binarize (bool, optional): Replace every non-zero feature by one; not for features that
            are measured rather than present or absent. (default: :obj:`True`)
        reweight (str, optional): See :class:`~drgcn.nn.GCN`. (default: :obj:`None`)

    Example:
        >>> model = MixHop(1433, (24, 18, 18), 7, readout_channels=(0, 7, 7), reweight="dr")
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> model(torch.rand(3, 1433), edge_index).shape
        torch.Size([3, 7])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: Sequence[int],
        out_channels: int,
        *,
        num_layers: int = 2,
        readout_channels: Sequence[int] | None = None,
        dropout: float = 0.5,
        hidden_dropout: float = 0.9,
        binarize: bool = True,
        reweight: Reweight | None = None,
    ) -> None:
        super().__init__()
        check_sizes("MixHop", in_channels=in_channels, out_channels=out_channels)
        check_sizes("MixHop", num_layers=num_layers)
        check_rates("MixHop", dropout=dropout, hidden_dropout=hidden_dropout)
        if not isinstance(hidden_channels, Sequence):
            raise ValueError(
                f"MixHop expects hidden_channels to hold one width per power, such as "
                f"(20, 20, 20); found {hidden_channels}."
            )
        if readout_channels is None:
            readout_channels = [out_channels] * len(hidden_channels)
        widths = [in_channels, *[sum(hidden_channels)] * (num_layers - 1)]
        self.dropout = dropout
        self.hidden_dropout = hidden_dropout
        self.binarize = binarize
        self.inputs = layer_inputs(widths, reweight=reweight)
        self.convs = torch.nn.ModuleList(
            MixHopConvolution(w, hidden_channels) for w in widths[:-1]
        )
        self.readout = MixHopReadout(widths[-1], readout_channels, out_channels)
        self.norms = torch.nn.ModuleList(StatelessBatchNorm(width) for width in widths[1:])

    @staticmethod
    def matrix(
        edge_index: Tensor,
        num_nodes: int,
        dtype: torch.dtype,
        edge_weight: Tensor | None = None,
    ) -> SparseMatrix:
        """Return the normalised adjacency matrix."""
        return normalized_adjacency(edge_index, num_nodes, edge_weight=edge_weight, dtype=dtype)

    def prepare(self, data: Data) -> tuple[Any, ...]:  # type: ignore[override]
        """Return the arguments of ``forward``; warn if all binarised features are the same."""
        if self.binarize and bool((data.x.to_dense() != 0).all()):
            warn(
                "MixHop makes every non-zero feature a one, and here that leaves nothing but "
                "ones: use binarize=False to keep their values."
            )
        return super().prepare(data)

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """Return the weights of all layers."""
        return [conv.weight for conv in (*self.convs, self.readout)]

    def penalty(self, weight_decay: float) -> Tensor:
        """Return the authors' regulariser: squares (without a half) and column lengths of all
        weights, and a small term of the segments; plus the usual L2 of the gates."""
        # NOTE[DIFF] The column lengths are meant to have a coefficient of their own, but the code
        # feeds them that of the squares. The published numbers were made that way.
        kernels = sum(conv.penalty() for conv in (*self.convs, self.readout))
        squares = sum(parameter.square().sum() for parameter in self.gate_parameters())
        segments = self.readout.segment_logits.square().mean()
        return weight_decay * (kernels + 0.5 * squares) + _SEGMENT_PENALTY * segments

    def run_layers(
        self, x: Features, matrix: SparseMatrix, groups: NodeGroups | None
    ) -> Iterator[Layer]:
        """Run the layers one after the other."""
        if self.binarize:
            x = map_values(lambda v: (v != 0).to(v.dtype), x)
        # NOTE[PAPER] Dr for MixHop is not in the paper. As in GCN the block sees the clean input,
        # and acts directly before the weights: the row lengths are taken without it.
        layer_input, s = self.inputs[0](unit_rows(x), groups)
        h = unit_rows(dropout(x, self.dropout, self.training))
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True), 1):
            out = F.relu(norm(conv(h, matrix, s, groups)))
            yield layer_input, s, out
            layer_input, s = self.inputs[number](out, groups)
            h = dropout(layer_input, self.hidden_dropout, self.training)
        yield layer_input, s, self.readout(h, matrix, s, groups)


class MixHopConvolution(torch.nn.Module):
    r"""The layer :math:`\big\Vert_j \, \tilde{\mathbf{A}}^j \mathbf{X} \mathbf{S} \mathbf{W}_j`,
    powers of the adjacency matrix side by side, without a bias.

    Powers share their products: for three of them it is :math:`[\mathbf{Y}_0 \Vert
    \tilde{\mathbf{A}} [\mathbf{Y}_1 \Vert \tilde{\mathbf{A}} \mathbf{Y}_2]]` with
    :math:`\mathbf{Y}_j = \mathbf{X} \mathbf{S} \mathbf{W}_j` from one product with all weights.

    Args:
        in_channels (int): Size of each input node.
        out_channels (sequence of int): Width of each power, from power 0 on; zero leaves one out.
    """

    def __init__(self, in_channels: int, out_channels: Sequence[int]) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = tuple(out_channels)
        if sum(self.out_channels) < 1 or min(self.out_channels) < 0:
            raise ValueError(
                f"{type(self).__name__} expects one width per power, none negative and not all "
                f"zero; found {self.out_channels}."
            )
        self.weight = torch.nn.Parameter(torch.empty(in_channels, sum(self.out_channels)))
        MixHopConvolution.reset_parameters(self)  # those of a subclass do not exist yet

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        for kernel in self.weight.split(self.out_channels, dim=1):
            glorot(kernel)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        adj: SparseMatrix,
        s: Tensor | None = None,
        groups: NodeGroups | None = None,
    ) -> Tensor:
        """Transform, then propagate; ``s`` scales the features that meet the weights."""
        transformed = gated_product(x, self.weight, s, groups)
        *nearer, out = transformed.split(self.out_channels, dim=1)
        for block in reversed(nearer):
            farther = spmm(adj, out) if out.size(1) else out
            out = torch.cat([block, farther], dim=1)
        return out

    def penalty(self) -> Tensor:
        """Sum of squares plus the sum of the lengths of the columns, for a coefficient of one."""
        # Torch takes the gradient of a column of zeros to be zero.
        columns = torch.linalg.vector_norm(self.weight, dim=0)
        return self.weight.square().sum() + columns.sum()

    def extra_repr(self) -> str:
        """Widths."""
        return f"{self.in_channels}, {self.out_channels}"


class MixHopReadout(MixHopConvolution):
    r"""The columns of a :class:`MixHopConvolution`, cut into segments :math:`\mathbf{Z}_i` of one
    column per class, and :math:`\sum_i \mathrm{softmax}(\mathbf{q})_i \mathbf{Z}_i`.

    The sum is taken in the weights, before anything is propagated: every power then has one
    column per class, and :math:`\mathbf{Y}_0 + \tilde{\mathbf{A}} (\mathbf{Y}_1 +
    \tilde{\mathbf{A}} \mathbf{Y}_2)` needs no product wider than the classes.

    Args:
        in_channels (int): Size of each input node.
        out_channels (sequence of int): Width of each power, from power 0 on; the sum is a
            multiple of ``num_classes``. A segment may take columns of two powers.
        num_classes (int): Number of classes.
    """

    def __init__(self, in_channels: int, out_channels: Sequence[int], num_classes: int) -> None:
        super().__init__(in_channels, out_channels)
        width = sum(self.out_channels)
        if num_classes < 1 or width % num_classes:
            raise ValueError(
                f"MixHopReadout expects widths whose sum is a multiple of the number of classes; "
                f"found {self.out_channels} for {num_classes} classes."
            )
        self.num_classes = num_classes
        self.segment_logits = torch.nn.Parameter(torch.zeros(width // num_classes))

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        super().reset_parameters()
        torch.nn.init.zeros_(self.segment_logits)

    def forward(
        self,
        x: Tensor | SparseMatrix,
        adj: SparseMatrix,
        s: Tensor | None = None,
        groups: NodeGroups | None = None,
    ) -> Tensor:
        """Class scores; ``s`` scales the features that meet the weights."""
        kernels = self._kernels()
        transformed = gated_product(x, torch.cat(list(kernels.values()), dim=1), s, groups)
        terms = dict(zip(kernels, transformed.split(self.num_classes, dim=1), strict=True))
        farthest = max(terms)
        out = terms[farthest]
        for power in range(farthest - 1, -1, -1):
            out = spmm(adj, out)
            out = out + terms[power] if power in terms else out
        return out

    def _kernels(self) -> dict[int, Tensor]:
        """For every power in use its weights ``[in_channels, num_classes]``, segments summed."""
        share = self.segment_logits.softmax(0)[:, None]
        weight = (self.weight.unflatten(1, (-1, self.num_classes)) * share).flatten(1)
        found = {}
        ends = accumulate(self.out_channels)
        for power, (width, end) in enumerate(zip(self.out_channels, ends, strict=True)):
            if width:
                # Zeros where a segment begins or ends in another power.
                margins = ((end - width) % self.num_classes, -end % self.num_classes)
                kernel = F.pad(weight[:, end - width : end], margins)
                found[power] = kernel.unflatten(1, (-1, self.num_classes)).sum(1)
        return found


class StatelessBatchNorm(torch.nn.Module):
    r"""The map :math:`(\mathbf{x} - \mathrm{mean}) / \sqrt{\mathrm{var} + \epsilon} +
    \boldsymbol{\beta}` with mean and variance of the given nodes, in training and in evaluation.

    In full-batch training these are the same nodes, so there is nothing to estimate over time.

    Args:
        in_channels (int): Number of feature dimensions.
        eps (float, optional): Added to the variance. (default: :obj:`1e-3`, that of TensorFlow)
    """

    def __init__(self, in_channels: int, eps: float = 1e-3) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.eps = eps
        self.bias = torch.nn.Parameter(torch.empty(in_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset all learnable parameters of the module."""
        torch.nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every feature dimension over the nodes."""
        variance, mean = torch.var_mean(x, dim=0, correction=0)
        return (x - mean) * torch.rsqrt(variance + self.eps) + self.bias

    def extra_repr(self) -> str:
        """Width and epsilon, as in torch."""
        return f"{self.in_channels}, eps={self.eps}"


def unit_rows(x: Features) -> Features:
    r"""Scale every row to length one, :math:`\mathbf{x}_v / \lVert \mathbf{x}_v \rVert_2`."""
    if not isinstance(x, SparseMatrix):
        return x * _reciprocal_root(x.square().sum(1, keepdim=True))
    ones = x.values.new_ones(x.shape[1], 1)
    squares = spmm(x.with_values(x.values.square()), ones).squeeze(1)
    return x.with_values(x.values * _reciprocal_root(squares)[x.pattern.row])


def _reciprocal_root(squares: Tensor) -> Tensor:
    return torch.rsqrt(squares.clamp(min=_SMALLEST_SQUARE))
