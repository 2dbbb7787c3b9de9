"""The last layer of MixHop: class scores as a weighted sum over segments of columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from drgcn.nn.gated_product import gated_product
from drgcn.nn.mixhop_convolution import MixHopConvolution
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.sparse_matrix import SparseMatrix
from drgcn.nn.spmm import spmm


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
        """Resets all learnable parameters of the module."""
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
