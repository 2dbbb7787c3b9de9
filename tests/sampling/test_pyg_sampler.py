"""Beside PyG's own sampler, where pyg-lib or torch-sparse is there to run it."""

import warnings

import pytest
import torch
import torch_geometric.typing
from torch_geometric.sampler import NeighborSampler as PyGSampler
from torch_geometric.sampler import NodeSamplerInput

from drgcn.sampling import NeighborSampler

from .graphs import random_data

pytestmark = pytest.mark.skipif(
    not (torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE),
    reason="PyG's own sampler needs pyg-lib or torch-sparse",
)
RUNS = 3000


@pytest.mark.parametrize("replace", [False, True])
def test_edges_are_included_as_often(replace):
    data = random_data(nodes=20, edges=160)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without pyg-lib it calls itself deprecated
        theirs = PyGSampler(data, [4, 3], replace=replace)
    shares = []
    for sampler in (NeighborSampler(data, [4, 3], replace), theirs):
        count = torch.zeros(160)
        for _ in range(RUNS):
            out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([2, 5])))
            order = sampler.edge_permutation
            edge = out.edge if order is None else order[out.edge]
            count[edge.unique()] += 1
        shares.append(count / RUNS)
    middle = (shares[0] + shares[1]) / 2
    error = (2 * middle * (1 - middle) / RUNS).sqrt()
    assert ((shares[0] - shares[1]).abs() <= 4.5 * error).all()
