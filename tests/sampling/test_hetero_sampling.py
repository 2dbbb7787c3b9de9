import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.sampler import NodeSamplerInput
from torch_geometric.utils import trim_to_layer

from drgcn.errors import InputError
from drgcn.sampling import CSRGraph, NeighborSampler

from .graphs import random_hetero


class Net(torch.nn.Module):
    """Two layers of SAGE over all types of edges; types that nothing reaches keep their values."""

    def __init__(self, types):
        super().__init__()
        self.convs = torch.nn.ModuleList(
            HeteroConv({kind: SAGEConv(6, 6) for kind in types}) for _ in range(2)
        )

    def forward(self, x, edges, sampled=None):
        for layer, conv in enumerate(self.convs):
            if sampled is not None:
                x, edges, _ = trim_to_layer(layer, *sampled, x, edges)
            x = x | conv(x, edges)
        return x


def check(batch, data, fan_outs):
    """Edges exist, nobody draws more than allowed, and features are those of the nodes."""
    for kind in data.node_types:
        assert batch[kind].n_id.unique().numel() == batch[kind].n_id.numel()
        assert sum(batch[kind].num_sampled_nodes) == batch[kind].n_id.numel()
        if "x" in data[kind]:
            assert torch.equal(batch[kind].x, data[kind].x[batch[kind].n_id])
    for kind in data.edge_types:
        source, _, target = kind
        row, col = batch[kind].edge_index
        ends = torch.stack([batch[source].n_id[row], batch[target].n_id[col]])
        assert torch.equal(ends, data[kind].edge_index[:, batch[kind].e_id])
        assert batch[kind].e_id.unique().numel() == batch[kind].e_id.numel()
        degree = torch.bincount(data[kind].edge_index[1], minlength=data[target].num_nodes)
        edge = node = 0
        hops = zip(batch[target].num_sampled_nodes, batch[kind].num_sampled_edges, strict=False)
        for hop, (nodes, edges) in enumerate(hops):
            got = torch.bincount(col[edge : edge + edges] - node, minlength=nodes)
            has = degree[batch[target].n_id[node : node + nodes]]
            count = fan_outs[kind][hop]
            assert torch.equal(got, has if count < 0 else has.clamp(max=count))
            edge, node = edge + edges, node + nodes
        assert edge == col.numel()


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_what_pyg_promises(workers):
    data = random_hetero()
    fan_outs = dict(zip(data.edge_types, ([3, 2], [2, 2], [4, -1], [0, 1]), strict=True))
    loader = NodeLoader(
        data,
        NeighborSampler(data, fan_outs),
        input_nodes="paper",
        batch_size=7,
        num_workers=workers,
    )
    met = []
    for batch in loader:
        check(batch, data, fan_outs)
        store = batch["paper"]
        met.append(store.n_id[: store.batch_size])
        assert torch.equal(store.input_id, met[-1])
        for kind in data.edge_types:
            assert torch.equal(batch[kind].edge_attr, batch[kind].e_id)
    assert torch.equal(torch.cat(met), torch.arange(50))


def test_one_list_serves_all_types():
    data = random_hetero()
    sampler = NeighborSampler(data, [3, 1])
    for batch in NodeLoader(data, sampler, input_nodes=("author", torch.arange(9)), batch_size=4):
        check(batch, data, {kind: [3, 1] for kind in data.edge_types})


@pytest.mark.filterwarnings("ignore:There exist node types:UserWarning")  # that is the point
def test_all_neighbours_give_the_scores_of_the_full_graph():
    data = random_hetero()
    model = Net(data.edge_types)
    full = model(data.x_dict, data.edge_index_dict)["paper"]
    loader = NodeLoader(data, NeighborSampler(data, [-1, -1]), input_nodes="paper", batch_size=9)
    for batch in loader:
        expected = full[batch["paper"].n_id[: batch["paper"].batch_size]]
        hops = (batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict)
        for sampled in (None, hops):
            out = model(batch.x_dict, batch.edge_index_dict, sampled)["paper"]
            torch.testing.assert_close(out[: len(expected)], expected)


def test_matrices_by_type():
    data = random_hetero()
    matrices = {
        kind: CSRGraph.from_edge_index(
            data[kind].edge_index, (data[kind[0]].num_nodes, data[kind[2]].num_nodes)
        )
        for kind in data.edge_types
    }
    index = NodeSamplerInput(None, torch.arange(5), None, "paper")
    ours = NeighborSampler(matrices, [-1, -1]).sample_from_nodes(index)
    other = NeighborSampler(data, [-1, -1]).sample_from_nodes(index)
    for kind in data.node_types:
        assert torch.equal(ours.node[kind], other.node[kind])
    for kind in data.edge_types:
        assert torch.equal(ours.row[kind], other.row[kind])
        assert torch.equal(ours.col[kind], other.col[kind])


def test_bad_input():
    data = random_hetero()
    one = ("paper", "cites", "paper")
    with pytest.raises(InputError, match=r"found \('paper', 'to', 'venue'\)"):
        NeighborSampler(data, {("paper", "to", "venue"): [2]})
    with pytest.raises(InputError, match=r"found none for .*Write 0"):
        NeighborSampler(data, {one: [2]})
    with pytest.raises(InputError, match="same number of hops"):
        NeighborSampler(data, {kind: [2, 2] for kind in data.edge_types} | {one: [2]})
    with pytest.raises(InputError, match="at least one type of edge"):
        NeighborSampler(HeteroData(paper={"x": torch.ones(3, 2)}), [2])
    sampler = NeighborSampler(data, [2])
    with pytest.raises(InputError, match="found 'editor'"):
        sampler.sample_from_nodes(NodeSamplerInput(None, torch.arange(3), None, "editor"))
    with pytest.raises(InputError, match="with a type"):
        sampler.sample_from_nodes(NodeSamplerInput(None, torch.arange(3)))
    del data[one].edge_index
    with pytest.raises(InputError, match=r"edge_index for edges .*cites"):
        NeighborSampler(data, [2])
    odd = HeteroData()
    odd["a", "to", "b"].edge_index = torch.tensor([[0], [0]])
    with pytest.raises(InputError, match=r"found \['a', 'b'\]"):
        NeighborSampler(odd, [2])


@pytest.mark.data
def test_dblp():
    folder = Path(os.environ.get("DRGCN_DATA", "")) / "hetero-dblp"
    if not (folder / "pa.txt").exists():
        pytest.skip("hetero-dblp is not under DRGCN_DATA")
    data = HeteroData()
    for file, kind in (("pa", "author"), ("pc", "venue"), ("pt", "term")):
        pairs = torch.from_numpy(np.loadtxt(folder / f"{file}.txt", dtype=np.int64)).T
        data["paper", "to", kind].edge_index = pairs.contiguous()
        data[kind, "to", "paper"].edge_index = pairs.flip(0).contiguous()
    for kind in ("paper", "author", "venue", "term"):
        data[kind].num_nodes = 1 + max(
            int(data[edge].edge_index[end].max())
            for edge in data.edge_types
            for end, name in enumerate(edge[::2])
            if name == kind
        )
    fan_outs = {kind: [10, 5] for kind in data.edge_types}
    loader = NodeLoader(
        data, NeighborSampler(data, fan_outs), input_nodes="author", batch_size=1024
    )
    for batch in loader:
        check(batch, data, fan_outs)
