"""PyG's GraphNorm with its sums as products."""

from __future__ import annotations

import torch_geometric.nn
from torch import Tensor

from drgcn.nn.node_groups import NodeGroups


class GraphNorm(torch_geometric.nn.GraphNorm):
    r"""The normalisation of `"GraphNorm: A Principled Approach to Accelerating Graph Neural
    Network Training" <https://arxiv.org/abs/2009.03294>`_, in the parameters and formula of PyG.

    PyG adds up by scatter: on CUDA all nodes of a graph then queue for the same few addresses
    (50 ms an epoch for 20 seeds of Pubmed, against 6 ms without a norm), in no fixed order.
    """

    def forward(self, x: Tensor, groups: NodeGroups | None = None) -> Tensor:
        """Shifts and scales every feature by its statistics over the graph of the node."""

        def mean(values: Tensor) -> Tensor:
            return values.mean(0) if groups is None else groups.spread(groups.mean(values))

        centred = x - mean(x) * self.mean_scale
        scale = (mean(centred.square()) + self.eps).sqrt()
        return self.weight * centred / scale + self.bias
