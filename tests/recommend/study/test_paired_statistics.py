import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from drgcn.recommend.study.tables import MeanInterval, holm


def test_the_interval_is_the_textbook_one():
    values = [0.3, -0.1, 0.4, 0.25, 0.05]
    mean = sum(values) / 5
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / 4)
    reach = 2.7764451051977987 * deviation / math.sqrt(5)  # t of 4 degrees at 0.975, from tables
    found = MeanInterval.of(values)
    assert found.mean == pytest.approx(mean)
    assert found.low == pytest.approx(mean - reach)
    assert found.high == pytest.approx(mean + reach)
    one, other = np.array(values) + 7, np.full(5, 7.0)
    assert found.p == pytest.approx(stats.ttest_rel(one, other).pvalue)


def test_intervals_cover_as_often_as_they_say():
    draws = np.random.default_rng(0).normal(0.2, 1.0, (2000, 5))
    covered = np.mean([o.low <= 0.2 <= o.high for o in map(MeanInterval.of, draws.tolist())])
    assert abs(covered - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 2000)


def test_one_value_and_equal_values():
    assert MeanInterval.of([1.0]).low == -math.inf
    assert math.isnan(MeanInterval.of([1.0]).p)
    assert MeanInterval.of([0.0, 0.0, 0.0]).p == 1.0
    assert MeanInterval.of([0.5] * 4) == MeanInterval(0.5, 0.5, 0.5, 0.125, 4)


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


def test_holm_leaves_out_what_is_no_number():
    found = holm([0.01, math.nan, 0.04])
    assert found[0] == 0.02
    assert math.isnan(found[1])
    assert found[2] == 0.04
