"""Paired tests against SciPy, and against all patterns of signs written out."""

import itertools

import numpy as np
import pytest
from scipy import stats

from drgcn.errors import InputError
from drgcn.studies.report.gate_tests import paired_test, sign_flip_p


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


def test_the_t_test_is_that_of_scipy(make_record):
    a, b = [0.82, 0.85, 0.9, 0.88], [0.8, 0.86, 0.84, 0.83]
    found = paired_test(make_record(a).seeds, make_record(b).seeds)
    assert found.p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert found.seeds == 4
    low, high = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (found.gain.low, found.gain.high) == pytest.approx((100 * low, 100 * high))


def test_seeds_are_paired_by_number(make_record):
    a, b = make_record([0.5, 0.6, 0.7, 0.8]).seeds, make_record([0.6, 0.72], first_seed=1).seeds
    found = paired_test(a, b)
    assert (found.seeds, found.gain.mean) == (2, pytest.approx(-1))


def test_differences_that_are_all_the_same_are_judged_by_sign_flips(make_record):
    a, b = make_record([0.81] * 5).seeds, make_record([0.8] * 5).seeds
    assert paired_test(a, b).p == paired_test(a, b).p_flip == 2 / 2**5
    assert paired_test(a, a).p == paired_test(a, a).p_flip == 1


def test_one_seed_allows_no_test(make_record):
    with pytest.raises(InputError, match="two seeds or more"):
        paired_test(make_record([0.8]).seeds, make_record([0.8]).seeds)


@pytest.mark.parametrize("test", [sign_flip_p, lambda d: stats.ttest_1samp(d, 0).pvalue])
def test_both_err_one_time_in_twenty_where_nothing_differs(test):
    draw = np.random.default_rng(0)
    # Not normal, but of either sign equally often.
    wrong = [test(draw.laplace(size=10)) < 0.05 for _ in range(2000)]
    assert 0.03 < np.mean(wrong) < 0.062
