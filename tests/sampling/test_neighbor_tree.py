import pytest
import torch

from drgcn.errors import InputError
from drgcn.sampling import CSRGraph, NeighborTree
from drgcn.training.randomness import SeededRandomness

from .graphs import Given, random_data, uneven


def square():
    data = random_data()
    return CSRGraph.from_edge_index(data.edge_index, data.num_nodes), data


def senders(graph, node):
    return graph.col[graph.rowptr[node] : graph.rowptr[node + 1]].tolist()


@pytest.mark.parametrize("replace", [False, True])
def test_levels_hold_neighbours_of_the_level_above(replace):
    graph, data = square()
    tree = NeighborTree.sample(graph, torch.arange(60), (4, 3, 2), replace)
    assert [level.shape for level in tree.nodes] == [(60,), (60, 4), (60, 4, 3), (60, 4, 3, 2)]
    edges = set(map(tuple, data.edge_index.T.tolist()))
    for level in (1, 2, 3):
        above, nodes, mask = tree.nodes[level - 1], tree.nodes[level], tree.masks[level]
        assert nodes.shape == mask.shape
        pairs = torch.stack([nodes, above.unsqueeze(-1).expand_as(nodes)], -1)
        assert set(map(tuple, pairs[mask].tolist())) <= edges
        assert (nodes[~mask] == 0).all()
        degree = graph.degree[above]
        full = torch.full_like(degree, nodes.size(-1)) * (degree > 0)
        expected = full if replace else degree.clamp(max=nodes.size(-1))
        assert torch.equal(mask.sum(-1), expected * tree.masks[level - 1])


def test_all_neighbours_give_the_full_mean():
    graph, data = square()
    most = int(graph.degree.max())
    tree = NeighborTree.sample(graph, torch.arange(60), (most,))
    mean = tree.mean(data.x[tree.nodes[1]])
    for node in range(60):
        found = senders(graph, node)
        expected = data.x[found].mean(0) if found else torch.zeros(5)
        torch.testing.assert_close(mean[node], expected)
    assert not mean[graph.degree == 0].any()


def test_means_of_the_second_level():
    graph, _ = square()
    tree = NeighborTree.sample(graph, torch.tensor([3, 59, 8]), (4, 3))
    values = torch.randn(3, 4, 3, 5)
    mean = tree.mean(values)
    for index in torch.cartesian_prod(torch.arange(3), torch.arange(4)):
        at = tuple(index.tolist())
        kept = values[at][tree.masks[2][at]]
        torch.testing.assert_close(mean[at], kept.mean(0) if len(kept) else torch.zeros(5))


@pytest.mark.parametrize("replace", [False, True])
def test_sampled_means_estimate_the_full_mean(replace):
    """Within 4.5 of their own standard errors, for every node with senders and every feature."""
    graph, data = square()
    trees, nodes = 4000, torch.arange(55)
    tree = NeighborTree.sample(graph, nodes.repeat(trees), (3,), replace)
    means = tree.mean(data.x[tree.nodes[1]].double()).view(trees, 55, 5)
    full = torch.stack([data.x[senders(graph, node)].double().mean(0) for node in nodes])
    error = means.std(0) / trees**0.5
    assert ((means.mean(0) - full).abs() <= 4.5 * error + 1e-12).all()


def test_gradients_reach_only_real_neighbours():
    graph, _ = square()
    tree = NeighborTree.sample(graph, torch.tensor([59, 3]), (30,))
    values = torch.randn(2, 30, 4, requires_grad=True)
    tree.mean(values).sum().backward()
    assert torch.equal(values.grad.abs().sum(-1) > 0, tree.masks[1])


def test_vmap_is_a_loop():
    graph, data = square()
    lanes, batch = 3, 7
    nodes = torch.randint(60, (lanes, batch))
    shapes = [(batch, 4), (batch, 4, 3)]
    chances = [torch.rand(lanes, *shape, dtype=torch.float64) for shape in shapes]

    def work(nodes, *chances):
        with Given(*chances):
            tree = NeighborTree.sample(graph, nodes, (4, 3))
        return tree.nodes, tree.masks, tree.mean(tree.mean(data.x[tree.nodes[2]]))

    together = torch.vmap(work)(nodes, *chances)
    for lane in range(lanes):
        alone = work(nodes[lane], *(chance[lane] for chance in chances))
        for ours, other in zip(together[0] + together[1], alone[0] + alone[1], strict=True):
            assert torch.equal(ours[lane], other)
        torch.testing.assert_close(together[2][lane], alone[2])


def test_lanes_may_share_nodes_and_differ_in_their_numbers():
    """As in training: one key for each seed, and what a seed draws depends on its key alone."""
    graph, _ = square()
    keys = torch.tensor([11, 22, 33])

    def work(key):
        with SeededRandomness(key):
            return NeighborTree.sample(graph, torch.arange(60), (4, 3)).nodes

    together = torch.vmap(work)(keys)
    for lane, key in enumerate(keys):
        for ours, alone in zip(together[1:], work(key)[1:], strict=True):
            assert torch.equal(ours[lane], alone)
    assert not torch.equal(together[1][0], together[1][1])


def test_graphs_without_edges():
    graph = CSRGraph.from_edge_index(torch.empty(2, 0, dtype=torch.long), 5)
    tree = NeighborTree.sample(graph, torch.arange(5), (3, 2))
    assert not any(mask.any() for mask in tree.masks[1:])
    assert not tree.mean(torch.ones(5, 3, 8)).any()


def test_mapped_graphs(tmp_path):
    graph, _ = square()
    graph.save(tmp_path)
    drawn = []
    for each in (graph, CSRGraph.open(tmp_path)):
        torch.manual_seed(5)
        drawn.append(NeighborTree.sample(each, torch.arange(60), (4, 3)).nodes[2])
    assert torch.equal(*drawn)


def test_bad_input():
    with pytest.raises(InputError, match="square"):
        NeighborTree.sample(uneven(), torch.arange(8), (2, 2))
    tree = NeighborTree.sample(uneven(), torch.arange(8), (2,))
    with pytest.raises(InputError, match=r"levels \[\[8, 2\]\]; found shape \[8, 3, 5\]"):
        tree.mean(torch.ones(8, 3, 5))
    with pytest.raises(InputError, match="levels"):
        tree.mean(torch.ones(8, 5))
