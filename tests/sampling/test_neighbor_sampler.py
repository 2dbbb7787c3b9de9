from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.sampler import NodeSamplerInput
from torch_geometric.utils import k_hop_subgraph

from drgcn.errors import InputError
from drgcn.sampling import CSRGraph, NeighborSampler

from .graphs import random_data

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
