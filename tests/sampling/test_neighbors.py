import itertools

import pytest
import torch
from scipy.stats import chisquare

from drgcn.errors import InputError
from drgcn.sampling import CSRGraph, NeighborTree, draw_neighbors
from drgcn.sampling.neighbors import gather_neighbors
from drgcn.training.randomness import SeededRandomness

from ..reference.floyd import floyd
from .graphs import DEGREES, Given, random_data, uneven

# Neighbours


DRAWS = 20_000
ROWS = torch.arange(len(DEGREES))
BEGINS = [sum(DEGREES[:row]) for row in ROWS]


def begin(row):
    return BEGINS[row]


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("count", [1, 2, 5, 40, 50])
def test_is_floyds_algorithm(kind, count):
    chance = torch.rand(len(ROWS), count, dtype=torch.float64)
    with Given(chance):
        place, real = draw_neighbors(uneven(kind), ROWS.to(kind), count)
    assert place.shape == real.shape == (len(ROWS), count)
    assert (place[~real] == 0).all()
    for row, degree in enumerate(DEGREES):
        expected = floyd(begin(row), degree, chance[row].tolist())
        assert place[row][real[row]].tolist() == expected


@pytest.mark.parametrize("count", [3, 5])
def test_every_set_has_the_same_chance(count):
    """All sets of that size out of the seven entries of the last row."""
    place, real = draw_neighbors(uneven(), torch.full((DRAWS,), 7), count)
    assert real.all()
    sets = dict.fromkeys(itertools.combinations(range(7), count), 0)
    for row in (place - begin(7)).sort(-1).values.tolist():
        sets[tuple(row)] += 1  # a KeyError would be a repeated or a foreign entry
    assert chisquare(list(sets.values())).pvalue > 1e-3


def test_each_entry_of_a_hub_is_included_equally_often():
    place, real = draw_neighbors(uneven(), torch.full((DRAWS,), 4), 25)
    assert real.all()
    assert (place.sort(-1).values.diff() > 0).all()
    share = torch.bincount(place.flatten() - begin(4), minlength=40) / DRAWS
    # Standard error of a share of 25/40 in so many draws, and 40 shares: four and a half of them.
    error = (25 / 40 * 15 / 40 / DRAWS) ** 0.5
    assert (share - 25 / 40).abs().max() < 4.5 * error


@pytest.mark.parametrize("row", [1, 3, 4])
def test_with_replacement_draws_are_uniform_and_independent(row):
    place, real = draw_neighbors(uneven(), torch.full((DRAWS,), row), 2, replace=True)
    assert real.all()
    pairs = (place - begin(row)) @ torch.tensor([DEGREES[row], 1])
    counts = torch.bincount(pairs, minlength=DEGREES[row] ** 2)
    assert len(counts) == DEGREES[row] ** 2
    assert len(counts) == 1 or chisquare(counts.tolist()).pvalue > 1e-3


@pytest.mark.parametrize("replace", [False, True])
def test_rows_without_entries_are_masked(replace):
    nodes = torch.tensor([[0, 6], [0, 1]])
    place, real = draw_neighbors(uneven(), nodes, 4, replace=replace)
    assert place.shape == (2, 2, 4)
    assert real.sum(-1).tolist() == [[0, 0], [0, 4 if replace else 1]]
    assert (place[~real] == 0).all()


def test_the_last_entry_of_a_huge_row_is_in_reach():
    """Nearly one times 2 ** 31 - 1 must not leave the row, and single precision would."""
    huge = 2**31 - 1
    graph = CSRGraph(torch.tensor([0, huge]), torch.empty(0), huge)
    nearly_one = torch.nextafter(torch.tensor(1.0, dtype=torch.float64), torch.tensor(0.0))
    for replace in (False, True):
        with Given(nearly_one.reshape(1, 1)):
            place, _ = draw_neighbors(graph, torch.tensor([0]), 1, replace=replace)
        assert place.item() == huge - 1


@pytest.mark.parametrize("replace", [False, True])
def test_vmap_is_a_loop(replace):
    graph, lanes, count = uneven(), 6, 5
    nodes = torch.randint(len(DEGREES), (lanes, 9))
    chance = torch.rand(lanes, 9, count, dtype=torch.float64)

    def draw(nodes, chance):
        with Given(chance):
            return draw_neighbors(graph, nodes, count, replace=replace)

    place, real = torch.vmap(draw)(nodes, chance)
    for lane in range(lanes):
        one_place, one_real = draw(nodes[lane], chance[lane])
        assert torch.equal(place[lane], one_place)
        assert torch.equal(real[lane], one_real)


def test_vmap_draws_differently_in_every_lane():
    nodes = torch.full((2, 50), 4)
    draw = torch.vmap(lambda rows: draw_neighbors(uneven(), rows, 5)[0], randomness="different")
    first, second = draw(nodes)
    assert not torch.equal(first, second)


def test_mapped_graphs_give_the_same_draws(tmp_path):
    graph = uneven()
    graph.save(tmp_path)
    chance = torch.rand(len(ROWS), 3, dtype=torch.float64)
    drawn = []
    for each in (graph, CSRGraph.open(tmp_path)):
        with Given(chance):
            drawn.append(draw_neighbors(each, ROWS, 3)[0])
    assert torch.equal(*drawn)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_graphs_can_hold_it():
    graph = uneven().to("cuda")
    nodes = torch.full((64,), 4, device="cuda")
    draw_neighbors(graph, nodes, 5)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        place, real = draw_neighbors(graph, nodes, 5)
    seen = []
    for _ in range(2):
        captured.replay()
        seen.append(place.cpu())
    assert real.all()
    assert not torch.equal(*seen)
    for places in seen:
        assert (places.sort(-1).values.diff() > 0).all()


# As a list


@pytest.mark.parametrize("count", [-1, 0, 1, 5, 100])
def test_lists_hold_what_tables_hold(count):
    nodes = torch.tensor([4, 0, 7, 3, 4, 6])
    place, receiver = gather_neighbors(uneven(), nodes, count)
    expected = [DEGREES[node] if count < 0 else min(DEGREES[node], count) for node in nodes]
    assert torch.bincount(receiver, minlength=len(nodes)).tolist() == expected
    assert (receiver.diff() >= 0).all()
    for at, node in enumerate(nodes.tolist()):
        mine = place[receiver == at].tolist()
        assert len(set(mine)) == len(mine)
        assert set(mine) <= set(range(begin(node), begin(node) + DEGREES[node]))


def test_lists_with_replacement():
    nodes = torch.tensor([1, 0, 7])
    place, receiver = gather_neighbors(uneven(), nodes, 4, replace=True)
    assert receiver.tolist() == [0] * 4 + [2] * 4
    assert place[:4].tolist() == [begin(1)] * 4
    assert ((place[4:] >= begin(7)) & (place[4:] < begin(7) + 7)).all()
    assert gather_neighbors(uneven(), nodes, 0, replace=True)[0].numel() == 0


def test_lists_draw_every_set_with_the_same_chance():
    place, _ = gather_neighbors(uneven(), torch.full((DRAWS,), 7), 3)
    sets = dict.fromkeys(itertools.combinations(range(7), 3), 0)
    for row in (place.view(-1, 3) - begin(7)).sort(-1).values.tolist():
        sets[tuple(row)] += 1
    assert chisquare(list(sets.values())).pvalue > 1e-3


@pytest.mark.parametrize("count", [0, -1])
def test_tables_need_a_positive_count(count):
    with pytest.raises(InputError, match="at least one"):
        draw_neighbors(uneven(), ROWS, count)


# Trees


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


def test_trees_under_vmap_are_a_loop():
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
