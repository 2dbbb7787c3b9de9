"""Samplers of neighbours and of whole layers, in plain torch."""

from drgcn.sampling.graph import CSRGraph
from drgcn.sampling.layers import (
    AdaptiveSampler,
    ImportanceSampler,
    LayerDependentSampler,
    LayerSample,
)
from drgcn.sampling.neighbors import NeighborSampler, NeighborTree, draw_neighbors

__all__ = [
    "AdaptiveSampler",
    "CSRGraph",
    "ImportanceSampler",
    "LayerDependentSampler",
    "LayerSample",
    "NeighborSampler",
    "NeighborTree",
    "draw_neighbors",
]
