"""Statistics against SciPy, against definitions written out, and on degenerate input."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from drgcn.errors import InputError
from drgcn.stats import (
    Interval,
    Summary,
    cluster_permutations,
    cluster_resamples,
    correction_words,
    correlate,
    decide,
    holm,
    mean_interval,
    p_words,
    paired_test,
    printed_difference,
    sign_flip_p,
)

NAN = math.nan


# Intervals


def ends(one):
    return (one.mean, one.low, one.high)


def test_the_interval_is_the_textbook_one():
    values = [0.3, -0.1, 0.4, 0.25, 0.05]
    mean = sum(values) / 5
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / 4)
    reach = 2.7764451051977987 * deviation / math.sqrt(5)  # t of 4 degrees at 0.975, from tables
    found = mean_interval(values)
    assert found.mean == pytest.approx(mean)
    assert found.low == pytest.approx(mean - reach)
    assert found.high == pytest.approx(mean + reach)
    one, other = np.array(values) + 7, np.full(5, 7.0)
    assert paired_test(one - other).p == pytest.approx(stats.ttest_rel(one, other).pvalue)


def test_intervals_cover_as_often_as_they_say():
    draws = np.random.default_rng(0).normal(0.2, 1.0, (2000, 5))
    covered = np.mean([o.low <= 0.2 <= o.high for o in map(mean_interval, draws.tolist())])
    assert abs(covered - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)


def sample(mean, std, size, seed=0):
    """Values with exactly this mean and deviation."""
    values = np.random.default_rng(seed).normal(size=size)
    values = (values - values.mean()) / values.std(ddof=1)
    return mean + std * values


@pytest.mark.parametrize(("ours", "theirs"), [(0.3, 0.3), (0.9, 0.1), (0.05, 0.7)])
def test_with_a_deviation_it_is_welchs_interval(ours, theirs):
    values, printed = sample(87.4, ours, 12), sample(86.4, theirs, 20, seed=1)
    found = printed_difference(values, 86.4, theirs, 20)
    wanted = stats.ttest_ind(values, printed, equal_var=False).confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx((1.0, wanted.low, wanted.high))


def test_its_ends_are_where_the_p_value_is_five_percent():
    values = sample(87.4, 0.6, 20)
    found = printed_difference(values, 86.4, 0.2, 20)
    for end in (found.low, found.high):
        test = stats.ttest_ind_from_stats(87.4, 0.6, 20, 86.4 + end, 0.2, 20, equal_var=False)
        assert test.pvalue == pytest.approx(0.05)


def test_without_a_deviation_only_ours_vary():
    values = [81.2, 81.9, 80.7, 81.4]
    found = printed_difference(values, 81.5, None, 20)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low - 81.5, high - 81.5))


@pytest.mark.parametrize(("ours", "theirs"), [(0.4, 0.4), (1.0, 0.2), (0.1, 0.8)])
def test_the_interval_holds_the_true_difference_nineteen_times_in_twenty(ours, theirs):
    draw, held, times = np.random.default_rng(0), 0, 4000
    for _ in range(times):
        values, printed = draw.normal(85.5, ours, 20), draw.normal(85.0, theirs, 20)
        found = printed_difference(values, printed.mean(), printed.std(ddof=1), 20)
        held += found.low <= 0.5 <= found.high
    assert held / times == pytest.approx(0.95, abs=0.012)  # more than three deviations of 4000


def test_intervals_of_equal_values_of_one_of_none_and_of_nan():
    assert ends(mean_interval([0.5] * 4)) == (0.5, 0.5, 0.5)
    assert ends(mean_interval([0.0] * 3)) == (0, 0, 0)
    assert not mean_interval([0.0] * 3).excludes_zero
    assert ends(mean_interval([2.0])) == (2, -math.inf, math.inf)
    assert str(mean_interval([2.0])) == "+2.00"
    for unknown in ([1.0, NAN], []):
        assert math.isnan(mean_interval(unknown).mean)
        assert not mean_interval(unknown).excludes_zero
    assert Interval(1, 0.5, 1.5).excludes_zero
    assert Interval(-1, -1.5, -0.5).excludes_zero
    assert str(Interval(-1, -1.5, -0.5)) == "-1.00 [-1.50, -0.50]"


def test_a_summary_of_one_has_no_deviation_and_of_none_no_mean():
    assert Summary.of([80.0, 90.0, 85.0]).words(1) == "85.0 ± 5.0"
    assert Summary.of([80.0]).words(2) == "80.00"
    assert math.isnan(Summary.of([80.0]).std)
    assert math.isnan(Summary.of([]).mean)
    assert Summary.of([]).seeds == 0
    assert Summary.of([5.0, 5.0]) == Summary(5.0, 0.0, 2)
    assert math.isnan(Summary.of([5.0, NAN]).mean)


def test_differences_from_a_printed_number_without_spread_and_of_one_or_none():
    assert ends(printed_difference([80.0, 80.0], 79.0, 0.0, 20)) == (1, 1, 1)
    assert ends(printed_difference([80.0], 79.0, 0.3, 20)) == (1, -math.inf, math.inf)
    assert math.isnan(printed_difference([], 79.0, 0.3, 20).mean)
    for std in (0.3, None):
        assert np.isnan(ends(printed_difference([80.0, NAN], 79.0, std, 20))).all()


# Paired tests


def test_p_values_of_equal_differences_are_those_of_sign_flips():
    for count in (2, 5, 20):
        found = paired_test([0.5] * count)
        assert found.p == found.p_flip == 2.0 ** (1 - count)
    rounding = [100 * (0.81 - 0.8)] * 3 + [100 * (0.91 - 0.9)] * 2
    assert paired_test(rounding).p == 2 / 2**5
    assert paired_test([0.0] * 3).p == paired_test([0.0] * 3).p_flip == 1


def test_one_difference_none_and_nan_allow_no_test():
    assert sign_flip_p([0.5]) == 1
    assert math.isnan(sign_flip_p([]))
    for differences in ([], [0.5], [0.5, NAN], [NAN] * 3, [*[1.0] * 25, NAN]):
        found = paired_test(differences)
        assert math.isnan(found.p)
        assert math.isnan(found.p_flip)
        assert found.seeds == len(differences)


def literal_sign_flip(differences):
    patterns = list(itertools.product([1, -1], repeat=len(differences)))
    sums = [abs(sum(s * d for s, d in zip(p, differences, strict=True))) for p in patterns]
    return sum(value >= abs(sum(differences)) - 1e-9 for value in sums) / len(patterns)


@pytest.mark.parametrize("seed", range(5))
def test_sign_flips_are_counted_as_written_out(seed):
    draw = np.random.default_rng(seed)
    # Accuracies are counts: ties and zeros are common.
    differences = (draw.integers(-4, 6, size=2 + 2 * seed) / 10).tolist()
    assert sign_flip_p(differences) == pytest.approx(literal_sign_flip(differences))


def test_sign_flips_are_those_of_scipy():
    differences = np.random.default_rng(3).normal(0.4, 1, size=11)
    wanted = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=np.inf
    )
    assert sign_flip_p(differences) == pytest.approx(wanted.pvalue)


def test_more_than_twenty_are_drawn():
    differences = np.random.default_rng(1).normal(0.15, 1, size=22)
    sums = np.zeros(1)
    for value in differences:
        sums = np.concatenate([sums + value, sums - value])
    wanted = (np.abs(sums) >= abs(differences.sum()) - 1e-9).mean()
    assert 0.02 < wanted < 0.5
    assert sign_flip_p(differences) == pytest.approx(wanted, abs=0.004)


def test_the_t_test_is_that_of_scipy():
    a, b = [82.0, 85.0, 90.0, 88.0], [80.0, 86.0, 84.0, 83.0]
    found = paired_test(np.subtract(a, b))
    wanted = stats.ttest_rel(a, b)
    assert found.p == pytest.approx(wanted.pvalue)
    assert found.seeds == 4
    ends = (found.gain.low, found.gain.high)
    assert ends == pytest.approx(tuple(wanted.confidence_interval(0.95)))


@pytest.mark.parametrize("test", [sign_flip_p, lambda d: stats.ttest_1samp(d, 0).pvalue])
def test_both_err_one_time_in_twenty_where_nothing_differs(test):
    draw = np.random.default_rng(0)
    # Not normal, but of either sign equally often.
    wrong = [test(draw.laplace(size=10)) < 0.05 for _ in range(2000)]
    assert 0.03 < np.mean(wrong) < 0.062


def literal_holm(p_values):
    """Holm's steps in words: the k-th smallest of m is multiplied by m - k + 1, never falling."""
    m = len(p_values)
    ranked = sorted(range(m), key=lambda i: p_values[i])
    out = [0.0] * m
    for k, i in enumerate(ranked, start=1):
        steps = [(m - j + 1) * p_values[ranked[j - 1]] for j in range(1, k + 1)]
        out[i] = min(1.0, max(steps))
    return out


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_the_literal_one(p_values):
    assert holm(p_values) == pytest.approx(literal_holm(p_values))


# The correction and the rule


def test_holm_leaves_out_what_is_no_number():
    np.testing.assert_allclose(holm([0.01, NAN, 0.04]), [0.02, NAN, 0.04])
    assert holm([]) == []
    assert holm([0.5, 0.5]) == [1, 1]
    assert math.isnan(holm([NAN])[0])


SMALL = [1.0, 1.2, 0.7, 1.1, 0.9]
WEAK = [1.0, 0.2, 0.9, 0.1, 0.8]  # p is 0.033 by itself


def test_a_family_decides_together():
    (alone,) = decide([WEAK])
    assert alone.sure
    assert alone.correction == "paired t-test, one comparison"
    first, second, third = decide([SMALL, WEAK, np.negative(SMALL)])
    p_values = [paired_test(each).p for each in (SMALL, WEAK, np.negative(SMALL))]
    assert [one.p_holm for one in (first, second, third)] == holm(p_values)
    assert (first.sign, second.sign, third.sign) == ("up", "up", "down")
    *_, last = decide([WEAK, WEAK])
    assert (last.sign, last.sure) == ("unsure", False)
    assert last.test.gain.excludes_zero  # by itself
    assert last.correction == "paired t-test, Holm over 2 comparisons"
    assert last.words == "+0.60 points, 95 % interval +0.08 to +1.12, corrected p 0.065"


def test_what_cannot_be_tested_is_unsure_and_does_not_count_in_the_family():
    known, one_seed, nan, none, zeros = decide([WEAK, [5.0], [NAN, 1.0], [], [0.0] * 5])
    assert known.family == 2
    assert known.p_holm == pytest.approx(2 * known.test.p)
    for unknown in (one_seed, nan, none):
        assert (unknown.sign, unknown.sure, unknown.agreed) == ("unsure", False, True)
        assert math.isnan(unknown.p_holm)
    assert one_seed.words == "+5.00 points, not tested"
    assert (zeros.p_holm, zeros.sign) == (1, "unsure")
    assert decide([]) == []


def test_equal_differences_are_sure_by_their_number_alone():
    assert decide([[0.5] * 5])[0].sign == "unsure"  # 2 of 32 patterns of signs
    assert decide([[0.5] * 6])[0].sign == "up"
    assert decide([[-0.5] * 6])[0].sign == "down"


def test_where_nothing_differs_a_family_errs_one_time_in_twenty_at_most():
    draw, wrong, alone, times = np.random.default_rng(0), 0, 0, 400
    for _ in range(times):
        family = decide(draw.normal(size=(8, 5)).tolist())
        wrong += any(one.sure for one in family)
        alone += any(one.test.p < 0.05 for one in family)
    assert wrong / times < 0.05 + 3 * (0.05 * 0.95 / times) ** 0.5
    assert alone / times > 0.2  # without the correction chance looks sure again and again


def test_corrections_are_named():
    assert correction_words(1) == "paired t-test, one comparison"
    assert correction_words(81, 56, 56) == "paired t-test, Holm over 56 or 81 comparisons"


def test_small_p_values_are_bounds():
    assert [p_words(p) for p in (0.5, 0.1, 0.0123, 0.00009, 0.0)] == [
        *("0.50", "0.10", "0.012", "< 0.0001", "< 0.0001")
    ]


# Correlations over clusters


def drawn(n, seed=0):
    draw = np.random.default_rng(seed)
    x = draw.integers(0, 8, n).astype(float)  # with ties
    return x, x + 3 * draw.standard_normal(n)


def test_single_observations_have_scipys_correlations():
    x, y = drawn(20)
    found = correlate(x, y, [str(i) for i in range(20)], draws=50)
    assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.pearson == pytest.approx(stats.pearsonr(x, y).statistic)
    assert (found.observations, found.clusters) == (20, 20)


def test_every_cluster_counts_once():
    sizes = [1, 2, 3, 1, 2, 3, 6]
    names = np.repeat(list("abcdefg"), sizes)
    x, y = drawn(len(names))
    # As many copies of an observation as give all clusters six.
    copies = np.repeat([6 // size for size in sizes], sizes)
    found = correlate(x, y, names, draws=50)
    again = stats.spearmanr(np.repeat(x, copies), np.repeat(y, copies)).statistic
    assert found.spearman == pytest.approx(again)
    assert found.pearson == pytest.approx(
        stats.pearsonr(np.repeat(x, copies), np.repeat(y, copies)).statistic
    )


def test_repeating_the_observations_of_a_cluster_adds_no_certainty():
    x, y = drawn(12)
    names = list("abcdefghijkl")
    once = correlate(x, y, names, draws=500)
    many = correlate(np.repeat(x, 9), np.repeat(y, 9), np.repeat(names, 9), draws=500)
    for name in ("spearman", "low", "high", "p", "pearson"):
        assert getattr(many, name) == pytest.approx(getattr(once, name)), name
    assert many.clusters == 12


def test_a_known_correlation_is_found_and_none_is_not():
    draw = np.random.default_rng(1)
    x = np.arange(15.0)
    names = [str(i) for i in range(15)]
    rising = correlate(x, x + draw.standard_normal(15), names, draws=2000)
    assert 0.8 < rising.low < rising.spearman < rising.high <= 1
    assert rising.p < 0.002
    assert correlate(x, -np.exp(x), names, draws=100).spearman == pytest.approx(-1)
    noise = correlate(x, draw.standard_normal(15), names, draws=2000)
    assert noise.low < 0 < noise.high
    assert noise.p > 0.05


def test_p_values_are_fair_where_clusters_share_an_effect():
    """Both quantities depend on the cluster and not on each other: 10 % of p-values lie below
    0.1. Taking observations for independent would call far more of them sure."""
    draw = np.random.default_rng(2)
    names = np.repeat(np.arange(10), 4)
    small = naive = 0
    for _ in range(400):
        x, y = (draw.standard_normal(10)[names] + 0.2 * draw.standard_normal(40) for _ in "xy")
        small += correlate(x, y, names.astype(str), draws=199).p <= 0.1
        naive += stats.spearmanr(x, y).pvalue <= 0.1
    assert 0.06 < small / 400 < 0.15
    assert naive / 400 > 0.3


def test_the_bootstrap_draws_whole_clusters():
    member = np.array([0, 0, 0, 1, 2, 2])
    counts = cluster_resamples(member, 4000, np.random.default_rng(0))
    for kind in range(3):
        inside = counts[:, member == kind]
        assert (inside == inside[:, :1]).all()
    per_cluster = counts[:, [0, 3, 4]]
    assert (per_cluster.sum(1) == 3).all()
    # Each is drawn once on average, and is absent in (2/3)^3 of the samples.
    assert per_cluster.mean(0) == pytest.approx(np.ones(3), abs=0.05)
    assert (per_cluster == 0).mean() == pytest.approx((2 / 3) ** 3, abs=0.02)


def test_permutations_exchange_whole_clusters_of_one_size():
    member = np.array([0, 1, 1, 2, 2, 3, 3, 3])
    orders = cluster_permutations(member, 300, np.random.default_rng(0))
    assert (orders[:, [0, 5, 6, 7]] == [0, 5, 6, 7]).all()  # alone in their sizes
    seen = {tuple(order) for order in orders[:, 1:5].tolist()}
    assert seen == {(1, 2, 3, 4), (3, 4, 1, 2)}


def test_what_is_left_out_is_left_out():
    x, y = drawn(10)
    names = np.array(list("aabcdefghi"))
    found = correlate(x, y, names, draws=20)
    assert list(found.without) == list("abcdefghi")
    for name, value in found.without.items():
        kept = names != name
        again = correlate(x[kept], y[kept], names[kept], draws=2)
        assert value == pytest.approx(again.spearman)
        assert found.pearson_without[name] == pytest.approx(again.pearson)
    farthest = max(found.without.values(), key=lambda value: abs(value - found.spearman))
    assert found.without[found.weightiest] == farthest


def test_a_cluster_without_which_nothing_varies_is_the_weightiest():
    found = correlate([0.1, 0.1, 0.1, 1], [3.1, 2.3, 4, 1], list("abcd"), draws=50)
    assert found.weightiest == found.pearson_weightiest == "d"
    assert np.isnan(found.without["d"])
    assert np.isnan(found.pearson_without["d"])  # the mean of 0.1, 0.1 and 0.1 is another number


def test_one_loud_cluster_is_named():
    y = np.array([0.1, -0.1, 0.12, -0.11, 0.05, 9.0])
    found = correlate([3, 3.1, 2.9, 3.05, 3.2, 40], y, list("abcdef"), draws=20)
    assert found.pearson > 0.99
    assert found.pearson_weightiest == "f"


def test_draws_are_repeatable():
    x, y = drawn(12)
    names = list("abcdefghijkl")
    assert correlate(x, y, names) == correlate(x, y, names)
    assert correlate(x, y, names, seed=1).low != correlate(x, y, names).low


def test_too_few_clusters_are_refused():
    with pytest.raises(InputError, match="3 clusters"):
        correlate([1, 2, 3], [1, 2, 3], ["a", "a", "b"])
    with pytest.raises(InputError, match="as many"):
        correlate([1, 2, 3], [1, 2], ["a", "b", "c"])
    with pytest.raises(InputError, match="vary"):
        correlate([1, 1, 1], [1, 2, 3], ["a", "b", "c"])
    with pytest.raises(InputError, match="NaN"):
        correlate([1, NAN, 1], [1, 2, 3], ["a", "b", "c"])
