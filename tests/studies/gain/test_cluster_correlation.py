import numpy as np
import pytest
from scipy import stats

from drgcn.errors import InputError
from drgcn.studies.advice.correlation import (
    cluster_permutations,
    cluster_resamples,
    correlate,
    holm,
)


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
    found = correlate([0, 0, 0, 1], [3, 2, 4, 1], list("abcd"), draws=50)
    assert found.weightiest == "d"
    assert np.isnan(found.without["d"])


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


def literal_holm(p):
    """The k-th smallest is multiplied by what is left, never below the one before, at most 1."""
    corrected, before = {}, 0.0
    for k, place in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        before = max(before, min(1.0, (len(p) - k) * p[place]))
        corrected[place] = before
    return [corrected[i] for i in range(len(p))]


@pytest.mark.parametrize("p", [[0.01, 0.04, 0.03], [0.5], [0.2, 0.2, 0.001, 0.9, 0.04, 0.02]])
def test_holm(p):
    assert holm(p) == pytest.approx(literal_holm(p))
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_too_few_clusters_are_refused():
    with pytest.raises(InputError, match="3 clusters"):
        correlate([1, 2, 3], [1, 2, 3], ["a", "a", "b"])
    with pytest.raises(InputError, match="as many"):
        correlate([1, 2, 3], [1, 2], ["a", "b", "c"])
    with pytest.raises(InputError, match="vary"):
        correlate([1, 1, 1], [1, 2, 3], ["a", "b", "c"])
