"""MixHop as its authors compute it, plain or reweighted."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from drgcn.errors import DrgcnWarning
from drgcn.nn.adjacency import normalized_adjacency
from drgcn.nn.argument_checks import check_rates, check_sizes
from drgcn.nn.features import Features, map_values
from drgcn.nn.full_batch_model import FullBatchModel
from drgcn.nn.layer_input import LayerInput, Reweight
from drgcn.nn.mixhop_convolution import MixHopConvolution
from drgcn.nn.mixhop_readout import MixHopReadout
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.reweighted_model import Layer
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.stateless_batch_norm import StatelessBatchNorm
from drgcn.nn.unit_rows import unit_rows

_SEGMENT_PENALTY = 1e-3


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
        reweight (str, optional): :obj:`"dr"` for the block, :obj:`"static"` and
            :obj:`"constant"` for its controls. (default: :obj:`None`)

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
        self.inputs = torch.nn.ModuleList(LayerInput(width, reweight=reweight) for width in widths)
        self.convs = torch.nn.ModuleList(
            MixHopConvolution(w, hidden_channels) for w in widths[:-1]
        )
        self.readout = MixHopReadout(widths[-1], readout_channels, out_channels)
        self.norms = torch.nn.ModuleList(StatelessBatchNorm(width) for width in widths[1:])

    @staticmethod
    def matrix(edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> SparseMatrix:
        """The normalised adjacency matrix."""
        return normalized_adjacency(edge_index, num_nodes, dtype=dtype)

    def prepare(self, data: Data) -> tuple[Any, ...]:  # type: ignore[override]
        """As the other models, with a warning where binarising leaves nothing to tell."""
        if self.binarize and bool((data.x.to_dense() != 0).all()):
            warnings.warn(
                "MixHop makes every non-zero feature a one, and here that leaves nothing but "
                "ones: use binarize=False to keep their values.",
                DrgcnWarning,
                stacklevel=2,
            )
        return super().prepare(data)

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """The weights of all layers."""
        return [conv.weight for conv in (*self.convs, self.readout)]

    def penalty(self, weight_decay: float) -> Tensor:
        """The authors' regulariser: squares (without a half) and column lengths of all weights,
        and a little on the segments; plus the usual L2 on the blocks."""
        # NOTE[DIFF] The column lengths are meant to have a coefficient of their own, but the code
        # feeds them that of the squares. The published numbers were made that way.
        kernels = sum(conv.penalty() for conv in (*self.convs, self.readout))
        squares = sum(parameter.square().sum() for parameter in self.gate_parameters())
        segments = self.readout.segment_logits.square().mean()
        return weight_decay * (kernels + 0.5 * squares) + _SEGMENT_PENALTY * segments

    def run_layers(
        self, x: Features, matrix: SparseMatrix, groups: NodeGroups | None
    ) -> Iterator[Layer]:
        """Every layer in turn."""
        if self.binarize:
            x = map_values(lambda v: (v != 0).to(v.dtype), x)
        # NOTE[PAPER] Dr for MixHop is not in the paper. As in GCN the block sees the clean input,
        # and acts directly before the weights: the row lengths are taken without it.
        layer_input, s = self.inputs[0](unit_rows(x), groups)
        h = unit_rows(self._dropped(x, self.dropout))
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True), 1):
            out = F.relu(norm(conv(h, matrix, s, groups)))
            yield layer_input, s, out
            layer_input, s = self.inputs[number](out, groups)
            h = self._dropped(layer_input, self.hidden_dropout)
        yield layer_input, s, self.readout(h, matrix, s, groups)

    def _dropped(self, x: Features, rate: float) -> Features:
        return map_values(lambda v: F.dropout(v, rate, self.training), x)
