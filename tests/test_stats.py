"""Degenerate input of the statistics: equal differences, NaN, one value, none."""

import math

import numpy as np
import pytest

from drgcn.recommend.study.tables import MeanInterval
from drgcn.recommend.study.tables import holm as holm_of_clicks
from drgcn.studies.advice.correlation import holm
from drgcn.studies.comparison import mean_interval
from drgcn.studies.report.gate_tests import _t_test_p, sign_flip_p
from drgcn.studies.report.verdicts import printed_difference

NAN = math.nan


def ends(one):
    return (one.mean, one.low, one.high)


@pytest.mark.parametrize("interval", [mean_interval, MeanInterval.of])
def test_intervals_of_equal_values_and_of_one(interval):
    assert ends(interval([0.5] * 4)) == (0.5, 0.5, 0.5)
    assert ends(interval([0.0] * 3)) == (0, 0, 0)
    assert ends(interval([2.0])) == (2, -math.inf, math.inf)
    assert np.isnan(ends(interval([1.0, NAN]))).all()
    with pytest.warns(RuntimeWarning):
        assert math.isnan(interval([]).mean)


def test_p_values_of_equal_differences_are_those_of_sign_flips():
    for count in (2, 4, 20):
        assert sign_flip_p([0.5] * count) == 2.0 ** (1 - count)
        assert _t_test_p([0.5] * count, 2.0 ** (1 - count)) == 2.0 ** (1 - count)
        assert MeanInterval.of([0.5] * count).p == 2.0 ** (1 - count)
    assert sign_flip_p([0.0] * 3) == MeanInterval.of([0.0] * 3).p == 1


def test_p_values_of_one_difference_of_none_and_of_nan():
    assert sign_flip_p([0.5]) == 1
    assert math.isnan(MeanInterval.of([0.5]).p)
    assert sign_flip_p([0.5, NAN]) == 0  # which would be sure
    assert math.isnan(_t_test_p([0.5, NAN], 0.0))
    assert math.isnan(MeanInterval.of([0.5, NAN]).p)
    with pytest.raises(IndexError):
        sign_flip_p([])


def test_holm_counts_nan_in_one_version_and_not_in_the_other():
    np.testing.assert_allclose(holm([0.01, NAN, 0.04]), [0.03, NAN, 0.08])
    np.testing.assert_allclose(holm_of_clicks([0.01, NAN, 0.04]), [0.02, NAN, 0.04])
    for one in (holm, holm_of_clicks):
        assert one([]) == []
        assert one([0.5, 0.5]) == [1, 1]


def test_differences_from_a_printed_number():
    assert ends(printed_difference([80.0, 80.0], 79.0, 0.0)) == (1, 1, 1)
    assert ends(printed_difference([80.0], 79.0, 0.3)) == (1, -math.inf, math.inf)
    assert np.isnan(ends(printed_difference([80.0, NAN], 79.0, 0.3))).all()
    assert np.isnan(ends(printed_difference([80.0, NAN], 79.0, None))).all()
