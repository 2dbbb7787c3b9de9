"""Intervals against printed numbers, held against SciPy and against many draws."""

import numpy as np
import pytest
from scipy import stats

from drgcn.studies.report.verdicts import printed_difference, within_rounding


def sample(mean, std, size, seed=0):
    """Values with exactly this mean and deviation."""
    values = np.random.default_rng(seed).normal(size=size)
    values = (values - values.mean()) / values.std(ddof=1)
    return mean + std * values


@pytest.mark.parametrize(("ours", "theirs"), [(0.3, 0.3), (0.9, 0.1), (0.05, 0.7)])
def test_with_a_deviation_it_is_welchs_interval(ours, theirs):
    values, printed = sample(87.4, ours, 12), sample(86.4, theirs, 20, seed=1)
    found = printed_difference(values, 86.4, theirs)
    wanted = stats.ttest_ind(values, printed, equal_var=False).confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx((1.0, wanted.low, wanted.high))


def test_its_ends_are_where_the_p_value_is_five_percent():
    values = sample(87.4, 0.6, 20)
    found = printed_difference(values, 86.4, 0.2)
    for end in (found.low, found.high):
        test = stats.ttest_ind_from_stats(87.4, 0.6, 20, 86.4 + end, 0.2, 20, equal_var=False)
        assert test.pvalue == pytest.approx(0.05)


def test_without_a_deviation_only_ours_vary():
    values = [81.2, 81.9, 80.7, 81.4]
    found = printed_difference(values, 81.5, None)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low - 81.5, high - 81.5))


def test_without_any_spread_the_difference_is_known():
    found = printed_difference([80.0, 80.0], 79.0, 0.0)
    assert (found.low, found.mean, found.high) == (1.0, 1.0, 1.0)


def test_one_seed_says_nothing():
    found = printed_difference([80.0], 79.0, 0.3)
    assert (found.mean, found.low, found.high) == (1.0, -np.inf, np.inf)


@pytest.mark.parametrize(("ours", "theirs"), [(0.4, 0.4), (1.0, 0.2), (0.1, 0.8)])
def test_the_interval_holds_the_true_difference_nineteen_times_in_twenty(ours, theirs):
    draw, held, times = np.random.default_rng(0), 0, 4000
    for _ in range(times):
        values, printed = draw.normal(85.5, ours, 20), draw.normal(85.0, theirs, 20)
        found = printed_difference(values, printed.mean(), printed.std(ddof=1))
        held += found.low <= 0.5 <= found.high
    assert held / times == pytest.approx(0.95, abs=0.012)  # more than three deviations of 4000


def test_rounding_is_half_of_the_last_digit():
    assert within_rounding(0.05, 1)
    assert not within_rounding(0.051, 1)
    assert within_rounding(-0.005, 2)
    assert not within_rounding(-0.0051, 2)
    assert within_rounding(0.5, 0)
