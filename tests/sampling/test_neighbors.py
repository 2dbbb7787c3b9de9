import itertools

import pytest
import torch
from scipy.stats import chisquare

from drgcn.errors import InputError
from drgcn.sampling import CSRGraph, draw_neighbors
from drgcn.sampling.neighbors import gather_neighbors

from ..reference.floyd import floyd
from .graphs import DEGREES, Given, uneven

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
