"""What FastGCN alone has; the rest is in test_layer_sampled_gcn.py."""

import pytest
import torch
from torch_geometric.data import Data

from drgcn.errors import InputError
from drgcn.nn import FastGCN, normalized_adjacency
from drgcn.sampling import ImportanceSampler, LayerDependentSampler

from .matrices import random_matrix

EDGES = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 4, 4]])
EDGES = torch.cat([EDGES, EDGES.flip(0)], dim=1)
DATA = Data(x=random_matrix(6, 4), edge_index=EDGES, num_nodes=6)


def sampler(**options):
    _, found = FastGCN(4, 3, 2, **options).prepare_training(DATA)
    return found


def test_the_matrix_is_that_of_the_training_graph():
    graph = sampler().graph
    expected = normalized_adjacency(EDGES, 6, dtype=torch.float64).to_dense()
    found = torch.zeros(6, 6, dtype=torch.float64)
    found[torch.arange(6).repeat_interleave(graph.degree), graph.col.long()] = graph.value
    assert torch.equal(found, expected)


def test_settings_reach_the_sampler():
    usual = sampler()
    assert isinstance(usual, ImportanceSampler)
    assert (usual.count, usual.candidates, usual.replace, usual.renormalize) == (
        *(400, "rows", False, True),
    )
    other = sampler(count=7, candidates="all", power=2, replace=True, renormalize=False)
    assert (other.count, other.candidates, other.replace, other.renormalize) == (
        *(7, "all", True, False),
    )
    # At power 2 weights are squares; both are shares of one.
    torch.testing.assert_close(other.weight, usual.weight**2 / (usual.weight**2).sum())
    ladies = sampler(sampler="layer-dependent", count=5, replace=True)
    assert isinstance(ladies, LayerDependentSampler)
    assert (ladies.count, ladies.replace) == (5, True)


def test_one_layer_samples_nothing():
    """The first layer is dense, so that alone it is exact."""
    model = FastGCN(4, 3, 2, num_layers=1, reweight="static").double()
    batch = torch.tensor([4, 0])
    out, extra = model.sampled(batch, *model.prepare_training(DATA))
    torch.testing.assert_close(out, model(DATA.x, EDGES)[batch])
    assert extra.item() == 0


@pytest.mark.parametrize("kind", ["importance", "layer-dependent"])
def test_samples_differ_and_nothing_is_added_to_the_loss(kind):
    model = FastGCN(4, 3, 2, count=1, sampler=kind).double()
    inputs = model.prepare_training(DATA)
    found = [model.sampled(torch.arange(6), *inputs) for _ in range(8)]
    assert len({tuple(out.flatten().tolist()) for out, _ in found}) > 1
    assert all(extra.item() == 0 for _, extra in found)


def test_unknown_ways_to_sample_are_refused():
    with pytest.raises(ValueError, match="'importance' or 'layer-dependent'; found 'adaptive'"):
        FastGCN(4, 3, 2, sampler="adaptive")
    for options, words in (({"power": 3}, "power 1"), ({"candidates": "no"}, "'rows' or 'all'")):
        with pytest.raises(InputError, match=words):
            sampler(**options)
