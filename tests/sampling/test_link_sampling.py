import pytest
import torch
from torch_geometric.loader import LinkLoader
from torch_geometric.sampler import NegativeSampling

from drgcn.sampling import NeighborSampler

from .graphs import random_data, random_hetero

WRITES = ("author", "writes", "paper")


def same_edges(batch, data):
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])


@pytest.mark.parametrize("workers", [0, 2])
def test_edges_as_seeds(workers):
    data = random_data()
    sampler = NeighborSampler(data, [3, 2])
    wanted = data.edge_index[:, :50]
    met = []
    for batch in LinkLoader(
        data, sampler, edge_label_index=wanted, batch_size=8, num_workers=workers
    ):
        met.append(batch.n_id[batch.edge_label_index])
        same_edges(batch, data)
        assert torch.equal(batch.edge_attr, batch.e_id)
    assert torch.equal(torch.cat(met, dim=1), wanted)


def test_edges_that_are_none():
    data = random_data()
    sampler = NeighborSampler(data, [3, 2])
    negative = NegativeSampling("binary", amount=2)
    wanted = data.edge_index[:, :40]
    for at, batch in enumerate(
        LinkLoader(data, sampler, wanted, neg_sampling=negative, batch_size=10)
    ):
        same_edges(batch, data)
        assert batch.edge_label.tolist() == [1] * 10 + [0] * 20
        ends = batch.n_id[batch.edge_label_index]
        assert torch.equal(ends[:, :10], wanted[:, 10 * at : 10 * at + 10])


def test_triplets():
    data = random_data()
    sampler = NeighborSampler(data, [3])
    negative = NegativeSampling("triplet", amount=3)
    wanted = data.edge_index[:, :40]
    for at, batch in enumerate(
        LinkLoader(data, sampler, wanted, neg_sampling=negative, batch_size=10)
    ):
        same_edges(batch, data)
        ends = torch.stack([batch.n_id[batch.src_index], batch.n_id[batch.dst_pos_index]])
        assert torch.equal(ends, wanted[:, 10 * at : 10 * at + 10])
        assert batch.dst_neg_index.shape == (10, 3)


@pytest.mark.parametrize("negative", [None, NegativeSampling("binary")])
def test_edges_of_a_type_as_seeds(negative):
    data = random_hetero()
    sampler = NeighborSampler(data, [3, 2])
    wanted, met = data[WRITES].edge_index, []
    for batch in LinkLoader(
        data, sampler, edge_label_index=(WRITES, wanted), neg_sampling=negative, batch_size=20
    ):
        row, col = batch[WRITES].edge_label_index[:, :20]
        met.append(torch.stack([batch["author"].n_id[row], batch["paper"].n_id[col]]))
        for kind in data.edge_types:
            ends = [batch[kind[i]].n_id[batch[kind].edge_index[i // 2]] for i in (0, 2)]
            assert torch.equal(torch.stack(ends), data[kind].edge_index[:, batch[kind].e_id])
    assert torch.equal(torch.cat(met, dim=1), wanted)
