"""GeniePath and its lazy variant, plain or reweighted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.inits import glorot, zeros

from drgcn.nn.adjacency import neighborhoods
from drgcn.nn.argument_checks import check_rates, check_sizes
from drgcn.nn.features import Features, map_values
from drgcn.nn.full_batch_model import FullBatchModel
from drgcn.nn.gated_product import gated_product
from drgcn.nn.geniepath_layer import AdaptivePath
from drgcn.nn.layer_input import LayerInput, Norm, Reweight
from drgcn.nn.node_groups import NodeGroups
from drgcn.nn.reweighted_model import Layer
from drgcn.nn.sparse_pattern import SparsePattern


class GeniePath(FullBatchModel):
    r"""The network of `"GeniePath: Graph Neural Networks with Adaptive Receptive Paths"
    <https://arxiv.org/abs/1802.00910>`_, plain or with dimensional reweighting in front of the
    embedding and of every path layer:

    .. math::
        \mathbf{H}^{0} = \mathrm{dropout}(\mathbf{X} \mathbf{S}) \mathbf{W}, \quad
        \mathbf{H}^{l}, \mathbf{C}^{l} = \mathrm{path}(\mathrm{dropout}(\mathbf{H}^{l-1}
        \mathbf{S}^{l}), \mathbf{C}^{l-1}), \quad
        \mathbf{Y} = \mathbf{H}^{L} \mathbf{W}' + \mathbf{b},

    with path layers of :class:`AdaptivePath` and :math:`\mathbf{C}^0 = 0`. In the lazy variant
    breadths follow one another, and memory and output only listen to them. For PPI, as in PyG's
    example: ``GeniePath(50, 256, 121, num_layers=4, dropout=0.0)``.

    Args:
        in_channels (int): Size of each input node.
        hidden_channels (int): Size of each hidden node, and of its memory.
        out_channels (int): Number of classes.
        num_layers (int, optional): Number of path layers. (default: :obj:`2`)
        lazy (bool, optional): The lazy variant. (default: :obj:`False`)
        dropout (float, optional): Dropout on the input of the embedding and of every path layer;
            on sparse features, of the non-zeros. (default: :obj:`0.5`)
        norm (str, optional): :obj:`"batch"`, :obj:`"layer"`, :obj:`"graph"` or :obj:`"pair"`,
            at the Dr position. (default: :obj:`None`)
        reweight (str, optional): :obj:`"dr"` for the block, :obj:`"static"` and
            :obj:`"constant"` for its controls. (default: :obj:`None`)

    Example:
        >>> model = GeniePath(1433, 16, 7, reweight="dr")
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
        lazy: bool = False,
        dropout: float = 0.5,
        norm: Norm | None = None,
        reweight: Reweight | None = None,
    ) -> None:
        super().__init__()
        check_sizes("GeniePath", in_channels=in_channels, hidden_channels=hidden_channels)
        check_sizes("GeniePath", out_channels=out_channels, num_layers=num_layers)
        check_rates("GeniePath", dropout=dropout)
        widths = [in_channels, *[hidden_channels] * num_layers]
        self.dropout = dropout
        self.lazy = lazy
        # NOTE[PAPER] Dr for GeniePath is not in the paper. As in GraphSAGE, the classifier behind
        # the last layer is not reweighted.
        self.inputs = torch.nn.ModuleList(
            LayerInput(width, norm=norm, reweight=reweight) for width in widths
        )
        self.paths = torch.nn.ModuleList(
            AdaptivePath(hidden_channels, hidden_channels, lazy=lazy) for _ in range(num_layers)
        )
        self.embedding = torch.nn.Parameter(torch.empty(in_channels, hidden_channels))
        self.weight = torch.nn.Parameter(torch.empty(hidden_channels, out_channels))
        self.bias = torch.nn.Parameter(torch.empty(out_channels))
        self._reset_ends()  # the others have drawn their own

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        super().reset_parameters()
        self._reset_ends()

    def _reset_ends(self) -> None:
        glorot(self.embedding)
        glorot(self.weight)
        zeros(self.bias)

    @staticmethod
    def matrix(edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> SparsePattern:
        """The neighbourhoods: attention has its own values."""
        return neighborhoods(edge_index, num_nodes)

    def decayed(self) -> Iterable[torch.nn.Parameter]:
        """All parameters but norms and gates."""
        return [self.embedding, *self.paths.parameters(), self.weight, self.bias]

    def run_layers(
        self, x: Features, matrix: SparsePattern, groups: NodeGroups | None
    ) -> Iterator[Layer]:
        """Every layer in turn; the last one's output is classified."""
        layer_input, s = self.inputs[0](x, groups)
        h = gated_product(self._dropped(layer_input), self.embedding, s, groups)
        yield layer_input, s, h
        state = h, torch.zeros_like(h)
        for number, path in enumerate(self.paths, 1):
            layer_input, s = self.inputs[number](h, groups)
            breadth, state = path(self._dropped(layer_input), matrix, state, s, groups)
            h = breadth if self.lazy else state[0]
            last = number == len(self.paths)
            yield layer_input, s, state[0] @ self.weight + self.bias if last else h

    def _dropped(self, x: Features) -> Features:
        # Since dropout(S x) = S dropout(x), the gate can wait for the weights.
        return map_values(lambda v: F.dropout(v, self.dropout, self.training), x)
