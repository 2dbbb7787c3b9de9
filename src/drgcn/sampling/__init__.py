"""Samplers in plain torch: neighbours of nodes, and whole layers at once."""

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
