from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from scipy import stats

from drgcn.sampling.layers import draw_with_replacement, draw_without_replacement

from .graphs import Given
from .matrices import assert_mean, many

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
