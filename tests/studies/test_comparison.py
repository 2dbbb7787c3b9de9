import math

import numpy as np
import pytest
from scipy import stats

from drgcn.studies.comparison import PAIRS, decide_rows, gain, summarize, verdict


def seeds(make_record, accuracies):
    return make_record(accuracies).seeds


def test_summary_is_mean_and_sample_standard_deviation(make_record):
    summary = summarize(seeds(make_record, [0.8, 0.9, 0.85]))
    assert summary.mean == pytest.approx(85)
    assert summary.std == pytest.approx(np.std([80, 90, 85], ddof=1))


def test_one_seed_has_no_deviation(make_record):
    assert math.isnan(summarize(seeds(make_record, [0.8])).std)


def test_gain_is_the_paired_t_interval(make_record):
    a, b = [0.82, 0.85, 0.9, 0.88], [0.8, 0.86, 0.84, 0.83]
    found = gain(seeds(make_record, a), seeds(make_record, b))
    difference = 100 * (np.array(a) - np.array(b))
    low, high = stats.t.interval(0.95, 3, loc=difference.mean(), scale=stats.sem(difference))
    assert (found.mean, found.low, found.high) == pytest.approx((difference.mean(), low, high))


def test_gain_pairs_by_seed_not_by_place(make_record):
    a = make_record([0.5, 0.6, 0.7]).seeds
    b = make_record([0.6, 0.7], first_seed=1).seeds
    assert gain(a, b).mean == pytest.approx(0)


def test_an_undefined_k_is_left_out_of_the_mean(make_record):
    record = make_record([0.8, 0.9], reweight="dr")
    record.seeds[0].k[0] = None
    assert summarize(record.seeds).k == (0.5, 1.0)


PLAIN = [0.80, 0.81, 0.82, 0.80]
BETTER = [0.85, 0.86, 0.88, 0.86]
BETWEEN = [0.82, 0.831, 0.85, 0.829]
WORSE = [0.75, 0.761, 0.77, 0.749]


@pytest.mark.parametrize(
    ("dr", "static", "constant", "words"),
    [
        (PLAIN[::-1], PLAIN, PLAIN, "no sure difference"),
        (WORSE, PLAIN, PLAIN, "costs"),
        (BETTER, BETWEEN, PLAIN, "both gates that are blind"),
        (BETTER, BETTER, PLAIN, "not surely over the static gate"),
        (BETTER, BETTER, BETTER, "static and the constant gate"),
        (PLAIN, BETTER, PLAIN, "Blind gates that differ from plain: static gate"),
    ],
)
def test_the_verdict_says_what_the_controls_allow(make_record, dr, static, constant, words):
    rows = {None: PLAIN, "dr": dr, "static": static, "constant": constant}
    rows = {gate: seeds(make_record, values) for gate, values in rows.items()}
    decided = decide_rows(rows)
    assert decided.keys() == set(PAIRS)
    assert words in verdict(decided)
    assert verdict(decided).endswith("p below 0.05 (paired t-test, Holm over 5 comparisons).")


def test_a_gain_that_is_sure_by_itself_may_not_be_in_its_family(make_record):
    rows = {None: [0.80] * 5, "dr": [0.810, 0.802, 0.809, 0.801, 0.808], "static": [0.80] * 5}
    rows = {gate: seeds(make_record, values) for gate, values in rows.items()}
    found = decide_rows(rows)
    assert found["dr", None].test.gain.excludes_zero
    assert found["dr", None].test.p < 0.05
    assert found["dr", None].family == 3
    words = verdict(decide_rows({**rows, "constant": rows["static"]}))
    assert words.startswith("Over 5 seeds, Dr makes no sure difference (+0.60 points, 95 % inter")


def test_one_seed_allows_no_verdict(make_record):
    one = seeds(make_record, [0.8])
    rows = {None: one, "dr": one, "static": one, "constant": one}
    assert "no comparison" in verdict(decide_rows(rows))
