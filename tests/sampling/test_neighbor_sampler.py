import os
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_geometric.typing
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.nn import GraphSAGE, HeteroConv, SAGEConv
from torch_geometric.sampler import NegativeSampling, NodeSamplerInput
from torch_geometric.sampler import NeighborSampler as PyGSampler
from torch_geometric.utils import k_hop_subgraph, trim_to_layer

from drgcn.errors import InputError
from drgcn.sampling import CSRGraph, NeighborSampler
from drgcn.sampling.neighbors import number_nodes

from .graphs import random_data, random_hetero

# Nodes


SEEDS = torch.tensor([7, 59, 3, 20])  # nobody sends to 59


def sample(sampler, nodes=SEEDS, kind=None):
    return sampler.sample_from_nodes(NodeSamplerInput(torch.arange(len(nodes)), nodes, None, kind))


def batches(data, sampler, **options):
    return list(NodeLoader(data, sampler, **options))


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_what_pyg_promises(replace, workers):
    data = random_data()
    sampler = NeighborSampler(data, [4, 3], replace)
    mask = torch.arange(60) % 3 == 0
    seeds = mask.nonzero().flatten()
    met = []
    for batch in batches(data, sampler, input_nodes=mask, batch_size=6, num_workers=workers):
        met.append(batch.n_id[: batch.batch_size])
        assert torch.equal(batch.input_id, batch.n_id[: batch.batch_size])
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.y, data.y[batch.n_id])
        assert batch.n_id.unique().numel() == batch.n_id.numel() == batch.num_nodes
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.edge_attr, batch.e_id)  # the attribute is the edge's own number
        assert batch.batch is None
        check_hops(batch, data, (4, 3), replace)
    assert torch.equal(torch.cat(met), seeds)


def check_hops(batch, data, fan_outs, replace):
    """Every node met before the last hop draws once, in the hop after it was met."""
    sizes, edges = batch.num_sampled_nodes, batch.num_sampled_edges
    assert (sum(sizes), sum(edges)) == (batch.num_nodes, batch.num_edges)
    assert len(sizes) == len(fan_outs) + 1 == len(edges) + 1
    degree = torch.bincount(data.edge_index[1], minlength=data.num_nodes)
    node, edge = 0, 0
    for hop, count in enumerate(fan_outs):
        drawn = batch.edge_index[:, edge : edge + edges[hop]]
        drawers = batch.n_id[node : node + sizes[hop]]
        got = torch.bincount(drawn[1] - node, minlength=sizes[hop])
        has = degree[drawers]
        assert torch.equal(got, count * (has > 0) if replace else has.clamp(max=count))
        node, edge = node + sizes[hop], edge + edges[hop]
        assert drawn.numel() == 0 or int(drawn[0].max()) < node + sizes[hop + 1]
    if not replace:
        assert batch.e_id.unique().numel() == batch.e_id.numel()


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_all_neighbours_are_the_subgraph_of_so_many_hops(hops):
    data = random_data(edges=120)
    out = sample(NeighborSampler(data, [-1] * hops))
    nodes, *_ = k_hop_subgraph(SEEDS, hops, data.edge_index, num_nodes=60)
    drawers, *_ = k_hop_subgraph(SEEDS, hops - 1, data.edge_index, num_nodes=60)
    assert torch.equal(out.node[:4], SEEDS)
    assert torch.equal(out.node.sort().values, nodes)
    into = torch.isin(data.edge_index[1], drawers).nonzero().flatten()
    assert torch.equal(out.edge.sort().values, into)


def test_a_model_sees_no_difference_to_the_full_graph():
    data = random_data()
    model = GraphSAGE(5, 8, num_layers=2, out_channels=3)
    full = model(data.x, data.edge_index)
    for batch in batches(data, NeighborSampler(data, [-1, -1]), batch_size=11):
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        torch.testing.assert_close(out, full[batch.n_id[: batch.batch_size]])


def test_layers_can_be_trimmed():
    data = random_data()
    model = GraphSAGE(5, 8, num_layers=3, out_channels=3)
    for batch in batches(data, NeighborSampler(data, [3, 2, 2]), batch_size=4):
        trimmed = model(
            batch.x,
            batch.edge_index,
            num_sampled_nodes_per_hop=batch.num_sampled_nodes,
            num_sampled_edges_per_hop=batch.num_sampled_edges,
        )
        whole = model(batch.x, batch.edge_index)[: batch.batch_size]
        torch.testing.assert_close(trimmed[: batch.batch_size], whole)


def test_a_node_asked_for_twice_has_two_rows_and_neighbours_in_both():
    data = random_data()
    model = GraphSAGE(5, 8, num_layers=2, out_channels=3)
    seeds = torch.tensor([7, 3, 7])
    out = sample(NeighborSampler(data, [-1, -1]), seeds)
    assert torch.equal(out.node[:3], seeds)
    scores = model(data.x[out.node], torch.stack([out.row, out.col]))[:3]
    torch.testing.assert_close(scores, model(data.x, data.edge_index)[seeds])


def test_zero_neighbours():
    out = sample(NeighborSampler(random_data(), [0, 5]))
    assert torch.equal(out.node, SEEDS)
    assert out.num_sampled_nodes == [4, 0, 0]
    assert out.num_sampled_edges == [0, 0]


def test_seeded_runs_are_repeatable_and_others_differ():
    data = random_data()

    def run(seed, workers):
        torch.manual_seed(seed)
        options = {"batch_size": 8, "shuffle": True, "num_workers": workers}
        return torch.cat([b.e_id for b in batches(data, NeighborSampler(data, [3, 2]), **options)])

    for workers in (0, 2):
        assert torch.equal(run(1, workers), run(1, workers))
        assert not torch.equal(run(1, workers), run(2, workers))


def test_workers_draw_differently():
    data = random_data(nodes=12, edges=600)
    hub = torch.full((2,), 3)  # the first batch goes to one worker, the second to the other
    sampler = NeighborSampler(data, [20])
    one, two = batches(data, sampler, input_nodes=hub, batch_size=1, num_workers=2)
    assert set(one.e_id.tolist()) != set(two.e_id.tolist())


def test_the_draws_of_a_loader_are_uniform():
    data = random_data(nodes=12, edges=600)
    into = (data.edge_index[1] == 3).nonzero().flatten()
    sampler, runs = NeighborSampler(data, [20]), 1500
    count = Counter(
        edge for _ in range(runs) for edge in sample(sampler, torch.tensor([3])).edge.tolist()
    )
    share = torch.tensor([count[int(edge)] / runs for edge in into])
    chance = 20 / len(into)
    assert sum(count.values()) == 20 * runs
    assert (share - chance).abs().max() < 4.5 * (chance * (1 - chance) / runs) ** 0.5


def test_mapped_graphs_in_workers(tmp_path):
    data = random_data()
    weight = torch.rand(500)
    CSRGraph.from_edge_index(data.edge_index, 60, weight).save(tmp_path)
    graph = CSRGraph.open(tmp_path)
    features = Data(x=data.x, edge_index=torch.empty(2, 0, dtype=torch.long))
    model = GraphSAGE(5, 8, num_layers=2, out_channels=3)
    full = model(data.x, data.edge_index)
    total = 0.0
    for batch in batches(features, NeighborSampler(graph, [-1, -1]), batch_size=20, num_workers=2):
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        torch.testing.assert_close(out, full[batch.n_id[: batch.batch_size]])
        first = batch.num_sampled_edges[0]
        total += float(graph.value[batch.e_id[:first]].sum())
        assert torch.equal(graph.col[batch.e_id].long(), batch.n_id[batch.edge_index[0]])
    assert total == pytest.approx(float(weight.sum()), rel=1e-5)


def test_a_model_learns_from_samples():
    data = random_data(nodes=200, edges=2000)
    data.y = (data.x[:, 0] > 0).long()
    model = GraphSAGE(5, 16, num_layers=2, out_channels=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    loader = NodeLoader(data, NeighborSampler(data, [5, 5]), batch_size=50, shuffle=True)
    losses = []
    for _ in range(10):
        for batch in loader:
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index)[: batch.batch_size]
            loss = F.cross_entropy(out, batch.y[: batch.batch_size])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert sum(losses[-4:]) < 0.5 * sum(losses[:4])


# Bad input


@pytest.mark.parametrize(
    ("num_neighbors", "words"),
    [
        ([5, -2], "from 0, or -1 for all"),
        ([], "list of neighbours"),
        ([2.5], "whole number"),
        ([True], "whole number"),
        (5, "list of neighbours"),
        ("12", "list of neighbours"),
        ({("a", "to", "b"): [2]}, "found .*'a'"),
    ],
)
def test_fan_outs_are_checked(num_neighbors, words):
    with pytest.raises(InputError, match=words):
        NeighborSampler(random_data(), num_neighbors)


def test_graphs_are_checked():
    with pytest.raises(InputError, match=r"edge_index for edges .*found \['x'\]"):
        NeighborSampler(Data(x=torch.ones(3, 2)), [2])
    with pytest.warns(UserWarning, match="num_nodes"), pytest.raises(InputError, match="Set num"):
        NeighborSampler(Data(), [2])  # PyG itself warns before it gives up
    with pytest.raises(InputError, match="found list"):
        NeighborSampler([1], [2])
    with pytest.raises(InputError, match="target nodes from 0 to 2"):
        NeighborSampler(Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0], [3]])), [2])
    oblong = CSRGraph.from_edge_index(torch.tensor([[2], [1]]), (3, 2))
    with pytest.raises(InputError, match="Expected 3 nodes 'node' everywhere; found 2"):
        NeighborSampler(oblong, [2])


def test_nodes_are_checked():
    sampler = NeighborSampler(random_data(), [2])
    with pytest.raises(InputError, match="from 0 to 59; found -1 to 4"):
        sample(sampler, torch.tensor([4, -1]))
    with pytest.raises(InputError, match="without a type"):
        sample(sampler, kind="paper")
    with pytest.raises(InputError, match="without times"):
        sampler.sample_from_nodes(NodeSamplerInput(None, SEEDS, torch.zeros(4)))


# Types of nodes and edges


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
def test_batches_with_types_are_what_pyg_promises(workers):
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


# Links


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


# PyG's sampler


pyg_sampler = pytest.mark.skipif(
    not (torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE),
    reason="PyG's own sampler needs pyg-lib or torch-sparse",
)
RUNS = 3000


@pyg_sampler
@pytest.mark.parametrize("replace", [False, True])
def test_edges_are_included_as_often_as_by_pyg(replace):
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


# Numbering


NODES = st.lists(st.integers(0, 12), max_size=20)


@settings(max_examples=100, deadline=None)
@given(NODES, NODES)
def test_numbers_as_a_dictionary_would(known, found):
    nodes, places = number_nodes(
        torch.tensor(known, dtype=torch.long), torch.tensor(found, dtype=torch.long)
    )
    after = known + sorted(set(found) - set(known))
    first = {}
    for place, node in enumerate(after):
        first.setdefault(node, place)
    assert nodes.tolist() == after
    assert places.tolist() == [first[node] for node in found]
