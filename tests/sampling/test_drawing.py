from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from scipy import stats

from drgcn.sampling import CSRGraph
from drgcn.sampling.layers import (
    Candidates,
    draw_with_replacement,
    draw_without_replacement,
    lookup,
)

from .graphs import Given
from .matrices import as_graph, assert_mean, many, uneven_matrix

# Draws


WEIGHT = torch.tensor([0.05, 2.0, 0.0, 0.3, 1.1, 0.0, 0.7, 5.0, 0.01], dtype=torch.float64)
VALUES = torch.tensor([3.0, -1.0, 1e6, 2.0, 0.5, -1e6, 7.0, 1.0, 4.0], dtype=torch.float64)
DRAW = pytest.mark.parametrize("draw", [draw_with_replacement, draw_without_replacement])
SMALL = np.array([0.5, 0.2, 0.15, 0.1, 0.05])


def total(draw, count, weight=WEIGHT):
    drawn = draw(weight, count)
    return (drawn.factor * VALUES[drawn.index]).sum()


@DRAW
@pytest.mark.parametrize("count", [1, 2, 5])
def test_sums_are_unbiased(draw, count):
    expected = VALUES[WEIGHT > 0].sum()
    assert_mean(many(lambda: total(draw, count), 40_000), expected)


@DRAW
def test_the_scale_of_the_weights_does_not_matter(draw):
    chance = torch.rand(3 if draw is draw_with_replacement else 9, dtype=torch.float64)
    found = []
    for scale in (1.0, 1e-3, 4096.0):
        with Given(chance):
            found.append(draw(scale * WEIGHT, 3))
    for other in found[1:]:
        assert torch.equal(other.index, found[0].index)
        torch.testing.assert_close(other.factor, found[0].factor)


@DRAW
def test_nothing_of_weight_zero_is_drawn(draw):
    def drawn():
        found = draw(WEIGHT, 5)
        return found.index, found.factor

    index, factor = many(drawn, 5000)
    assert not (WEIGHT[index] == 0).any()
    assert (factor > 0).all()
    assert factor.isfinite().all()


def test_with_replacement_places_are_drawn_by_weight_and_independently():
    index = many(lambda: draw_with_replacement(WEIGHT, 2).index, 30_000)
    share = (WEIGHT / WEIGHT.sum())[WEIGHT > 0]
    expected = (share[:, None] * share).flatten() * len(index)
    number = WEIGHT.gt(0).cumsum(0) - 1
    pairs = number[index[:, 0]] * len(share) + number[index[:, 1]]
    found = torch.bincount(pairs, minlength=len(expected))
    common = expected > 5
    statistic = ((found - expected) ** 2 / expected)[common].sum()
    assert stats.chi2.sf(float(statistic), int(common.sum()) - 1) > 1e-4


def test_with_replacement_the_factor_is_that_of_hansen_and_hurwitz():
    drawn = draw_with_replacement(WEIGHT, 50)
    q = WEIGHT / WEIGHT.sum()
    torch.testing.assert_close(drawn.factor, 1 / (50 * q[drawn.index]))


@pytest.mark.parametrize("number", [0.0, 1 - 2.0**-53])
def test_with_replacement_the_ends_of_chance_hit_places_of_weight(number):
    weight = torch.tensor([0.0, 0.3, 0.0, 0.1, 0.0], dtype=torch.float64)
    with Given(torch.full((4,), number, dtype=torch.float64)):
        drawn = draw_with_replacement(weight, 4)
    assert drawn.index.tolist() == [1 if number == 0 else 3] * 4


def successive(p, count):
    """Chance of every set, drawing one after the other from what is left."""
    chance = Counter()
    for order in permutations(range(len(p)), count):
        share, left = 1.0, 1.0
        for u in order:
            share, left = share * p[u] / left, left - p[u]
        chance[frozenset(order)] += share
    return chance


@pytest.mark.parametrize("count", [1, 2, 3])
def test_without_replacement_sets_are_those_of_successive_draws(count):
    weight = torch.from_numpy(SMALL)
    sets = [frozenset(c) for c in combinations(range(5), count)]
    index = many(lambda: draw_without_replacement(weight, count).index, 20_000)
    found = Counter(map(frozenset, index.tolist()))
    generator = np.random.default_rng(3)
    theirs = Counter(
        frozenset(generator.choice(5, count, replace=False, p=SMALL).tolist())
        for _ in range(20_000)
    )
    assert sum(found.values()) == sum(found[s] for s in sets)  # no set is smaller: none twice
    table = np.array([[counts[s] for s in sets] for counts in (found, theirs)])
    assert stats.chi2_contingency(table[:, table.sum(0) > 0]).pvalue > 1e-4
    exact = successive(SMALL, count)
    expected = np.array([exact[s] for s in sets]) * 20_000
    assert stats.chisquare(table[0], expected).pvalue > 1e-4


def test_without_replacement_factors_exceed_one_and_fall_with_weight():
    """A place with more weight was likelier to be taken, so that it stands for less."""
    drawn = draw_without_replacement(WEIGHT, 4)
    assert (drawn.factor > 1).all()
    order = WEIGHT[drawn.index].argsort()
    assert (drawn.factor[order].diff() < 0).all()


@pytest.mark.parametrize("count", [7, 8, 9, 30])
def test_with_fewer_places_than_draws_all_are_taken_for_certain(count):
    drawn = draw_without_replacement(WEIGHT, count)
    taken = drawn.factor > 0
    assert sorted(drawn.index[taken].tolist()) == WEIGHT.nonzero().flatten().tolist()
    assert torch.equal(drawn.factor[taken], torch.ones(7, dtype=torch.float64))
    assert (WEIGHT[drawn.index[~taken]] == 0).all()
    assert len(drawn.index) == min(count, 9)
    assert float((drawn.factor * VALUES[drawn.index]).sum()) == float(VALUES[WEIGHT > 0].sum())


def test_one_place_too_many_is_left_behind():
    found = many(lambda: total(draw_without_replacement, 6), 20_000)
    assert found.std() > 0
    assert_mean(found, VALUES[WEIGHT > 0].sum())


def test_without_any_weight_nothing_is_taken():
    drawn = draw_without_replacement(torch.zeros(4), 2)
    assert drawn.factor.tolist() == [0, 0]


def test_very_small_and_very_large_weights_stay_finite():
    weight = torch.tensor([1e-300, 1e300, 1.0, 1e-30], dtype=torch.float64)
    for count in (1, 2, 3, 4):
        drawn = draw_without_replacement(weight, count)
        assert drawn.factor[0] == pytest.approx(1.0)  # the giant is always there
        assert drawn.factor.isfinite().all()


def test_without_replacement_varies_less():
    """By the finite population: with 6 of 7 places drawn, little is left to chance."""
    spread = [many(lambda d=d: total(d, 6), 5000).var() for d in DRAW.args[1]]
    assert spread[1] < 0.5 * spread[0]


@DRAW
def test_lanes_draw_what_they_draw_alone(draw):
    weights = torch.rand(3, 9, dtype=torch.float64)
    chances = torch.rand(3, 4 if draw is draw_with_replacement else 9, dtype=torch.float64)

    def work(weight, chance):
        with Given(chance):
            drawn = draw(weight, 4)
        return drawn.index, drawn.factor

    together = torch.vmap(work)(weights, chances)
    for lane in range(3):
        for ours, alone in zip(together, work(weights[lane], chances[lane]), strict=True):
            assert torch.equal(ours[lane], alone)


# Candidates


# Both ways to number candidates: with a place per node, and by sorting the entries.
NARROW, WIDE = 12, 5000
SIZE = pytest.mark.parametrize("cols", [NARROW, WIDE])
KIND = pytest.mark.parametrize("kind", [torch.int32, torch.int64])


def wide(cols, kind=torch.int64):
    """The same entries in a matrix of few or of many columns; the columns are spread out."""
    narrow = uneven_matrix()
    dense = torch.zeros(NARROW, cols, dtype=torch.float64)
    dense[:, torch.arange(NARROW) * (cols // NARROW)] = narrow
    return dense, as_graph(dense, kind)


def by_loop(dense, rows):
    found = {}
    for v in rows.tolist():
        for u in dense[v].nonzero().flatten().tolist():
            found[u] = found.get(u, 0.0) + float(dense[v, u]) ** 2
    return found


def used(candidates):
    """What stands in the places that are used, none of them twice."""
    place = candidates.squares > 0
    nodes = candidates.node[place].tolist()
    assert len(nodes) == len(set(nodes))
    return dict(zip(nodes, candidates.squares[place].tolist(), strict=True))


ROWS = {
    "one": [7],
    "some": [8, 0, 3],
    "the hub": [2, 1],
    "one without entries": [5, 4],
    "the first has none": [5, 5, 2],
    "the last has none": [2, 5],
    "all": list(range(NARROW)),
    "one listed twice": [1, 4, 1, 1, 9],
}


@SIZE
@KIND
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_candidates_are_those_of_a_loop(cols, kind, rows):
    dense, graph = wide(cols, kind)
    rows = torch.tensor(rows)
    entries = int((dense[rows] != 0).sum())
    for room in (0, 1, 40):
        found = Candidates.of(graph, rows, entries + room if room else None)
        assert used(found) == pytest.approx(by_loop(dense, rows))
        assert found.node.shape == found.squares.shape
        assert ((found.node >= 0) & (found.node < cols)).all()  # also where no candidate stands


def test_both_ways_are_tried_here():
    rows = torch.arange(NARROW)
    assert len(Candidates.of(wide(NARROW)[1], rows).node) == NARROW
    assert len(Candidates.of(wide(WIDE)[1], rows).node) < WIDE


@SIZE
def test_without_values_squares_count_the_receivers(cols):
    dense, graph = wide(cols)
    plain = CSRGraph(graph.rowptr, graph.col, cols)
    rows = torch.tensor([2, 5, 8, 8, 0])
    found = used(Candidates.of(plain, rows, 100))
    assert found == by_loop((dense != 0).double(), rows)


@SIZE
@KIND
def test_every_lane_has_candidates_of_its_own(cols, kind):
    _, graph = wide(cols, kind)
    lanes = torch.tensor([[0, 1, 2], [5, 5, 5], [11, 2, 11], [9, 8, 7]])
    room = graph.most_entries(3, distinct=False)

    def work(rows):
        found = Candidates.of(graph, rows, room)
        return found.node, found.squares

    together = torch.vmap(work)(lanes)
    for lane, rows in enumerate(lanes):
        for ours, alone in zip(together, work(rows), strict=True):
            assert torch.equal(ours[lane], alone)  # to the bit: a seed does not see its neighbours


@SIZE
def test_lengths_do_not_depend_on_the_rows(cols):
    _, graph = wide(cols)
    lengths = {len(Candidates.of(graph, torch.tensor(r), 60).node) for r in ([5, 5], [2, 1])}
    assert len(lengths) == 1


def test_single_precision_is_added_up_in_double():
    value = torch.full((4000,), 0.1)
    graph = CSRGraph(torch.arange(4001), torch.zeros(4000, dtype=torch.long), 1, value)
    found = Candidates.of(graph, torch.arange(4000))
    assert found.squares.dtype is torch.float64
    expected = 4000 * float(value[0].double().square())
    assert float(found.squares[0]) == pytest.approx(expected, rel=1e-12)


# Looking up entries


@KIND
@pytest.mark.parametrize("shape", [(12, 12), (12, 300), (60, 7)])
def test_crossings_are_those_of_the_dense_matrix(kind, shape):
    dense = uneven_matrix(*shape)  # with a hub, an empty row and an empty column
    graph = as_graph(dense, kind)
    rows, cols = torch.arange(shape[0]), torch.arange(shape[1])
    assert torch.equal(lookup(graph, rows, cols), dense)


@KIND
def test_rows_and_columns_may_be_listed_twice_and_in_any_order(kind):
    dense = uneven_matrix(12, 30)
    graph = as_graph(dense, kind)
    rows = torch.tensor([9, 2, 2, 5, 0, 11])
    cols = torch.tensor([29, 3, 0, 29, 29, 14, 1, 0])
    assert torch.equal(lookup(graph, rows, cols), dense[rows][:, cols])
    assert lookup(graph, rows[:0], cols).shape == (0, 8)
    assert lookup(graph, rows, cols[:0]).shape == (6, 0)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 9, 31, 32, 33])
def test_rows_of_every_length_are_searched_to_their_ends(length):
    """Bisection goes wrong at the first and last entry, or where a length is a power of two."""
    dense = torch.zeros(3, 80)
    dense[1, 1 : 2 * length : 2] = torch.arange(1.0, length + 1)
    dense[2, 0] = dense[0, 79] = 5.0
    graph = as_graph(dense)
    assert torch.equal(lookup(graph, torch.arange(3), torch.arange(80)), dense)


def test_a_last_row_without_entries_finds_none():
    dense = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    assert torch.equal(lookup(as_graph(dense), torch.arange(2), torch.arange(2)), dense)


def test_without_values_entries_are_one():
    dense = uneven_matrix()
    graph = as_graph(dense)
    plain = CSRGraph(graph.rowptr, graph.col, graph.num_cols)
    found = lookup(plain, torch.arange(12), torch.arange(12))
    assert torch.equal(found, (dense != 0).float())


@pytest.mark.parametrize("shared", ["nothing", "rows", "cols"])
def test_every_lane_has_crossings_of_its_own(shared):
    dense = uneven_matrix()
    graph = as_graph(dense)
    rows, cols = torch.randint(12, (4, 6)), torch.randint(12, (4, 9))
    if shared == "rows":
        rows = rows[0]
    if shared == "cols":
        cols = cols[0]
    dims = (None if shared == "rows" else 0, None if shared == "cols" else 0)
    found = torch.vmap(lambda r, c: lookup(graph, r, c), dims)(rows, cols)
    for lane in range(4):
        r, c = rows if shared == "rows" else rows[lane], cols if shared == "cols" else cols[lane]
        assert torch.equal(found[lane], dense[r][:, c])


def test_trimmed_and_mapped_graphs_are_searched_too(tmp_path):
    dense = uneven_matrix(20, 60)
    graph = as_graph(dense, torch.int32).trimmed(5)
    graph.save(tmp_path)
    for each in (graph, CSRGraph.open(tmp_path)):
        found = lookup(each, torch.arange(20), torch.arange(60))
        kept = found != 0
        assert torch.equal(found[kept], dense[kept])
        assert torch.equal(kept.sum(1), (dense != 0).sum(1).clamp(max=5))


@pytest.mark.parametrize("weighted", [True, False])
def test_a_graph_without_entries_has_zeros_only(weighted):
    value = torch.zeros(0, dtype=torch.float64) if weighted else None
    graph = CSRGraph.from_edge_index(torch.zeros(2, 0, dtype=torch.int64), 4, value)
    found = lookup(graph, torch.tensor([0, 3]), torch.tensor([1, 1, 2]))
    assert found.shape == (2, 3)
    assert not found.any()
    assert found.dtype == (torch.float64 if weighted else torch.get_default_dtype())
