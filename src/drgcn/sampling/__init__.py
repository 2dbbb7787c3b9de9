"""Samplers in plain torch: neighbours of nodes, and whole layers at once."""

from drgcn.sampling.adaptive_sampler import AdaptiveSampler
from drgcn.sampling.csr_graph import CSRGraph
from drgcn.sampling.importance_sampler import ImportanceSampler
from drgcn.sampling.layer_dependent_sampler import LayerDependentSampler
from drgcn.sampling.layer_sample import LayerSample
from drgcn.sampling.neighbor_sampler import NeighborSampler
from drgcn.sampling.neighbor_tree import NeighborTree
from drgcn.sampling.neighbors import draw_neighbors

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
