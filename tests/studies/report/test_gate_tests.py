"""Families of comparisons: who is compared, and how often chance looks sure."""

import numpy as np
import pytest

from drgcn.studies.advice.correlation import holm
from drgcn.studies.report.gate_tests import (
    count_words,
    counts,
    gate_test_table,
    gate_tests,
    p_words,
)

SURE = [0.9, 0.91, 0.9, 0.92, 0.9, 0.91, 0.9, 0.92]
BASE = [0.8, 0.82, 0.81, 0.8, 0.82, 0.8, 0.81, 0.8]


def cells(make_record, draw, number, gain=0.0, seeds=8):
    """Plain and Dr on so many datasets."""
    found = []
    for place in range(number):
        for gate, shift in ((None, 0.0), ("dr", gain)):
            values = draw.normal(0.8 + shift, 0.02, seeds).tolist()
            found.append(make_record(values, content_hash=f"{place}", reweight=gate))
    return found


def literal_holm(p):
    """Step by step: the smallest times all, the next times one fewer, never below one before."""
    order = sorted(range(len(p)), key=lambda i: p[i])
    found, least = {}, 0.0
    for step, place in enumerate(order):
        least = max(least, min(1.0, p[place] * (len(p) - step)))
        found[place] = least
    return [found[i] for i in range(len(p))]


def test_p_values_are_corrected_over_the_family(make_record):
    tests = gate_tests(cells(make_record, np.random.default_rng(0), 7, gain=0.015), None)
    assert len(tests) == 7
    assert [t.p_holm for t in tests] == pytest.approx(literal_holm([t.test.p for t in tests]))
    flips = [t.test.p_flip for t in tests]
    assert [t.flip_holm for t in tests] == pytest.approx(literal_holm(flips))
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])


def test_where_nothing_differs_a_family_errs_one_time_in_twenty_at_most(make_record):
    draw, wrong, alone = np.random.default_rng(0), 0, 0
    times, size = 150, 12
    for _ in range(times):
        tests = gate_tests(cells(make_record, draw, size, seeds=6), None)
        wrong += any(test.sign != "unsure" for test in tests)
        alone += any(test.test.p < 0.05 for test in tests)
    assert wrong / times < 0.05 + 3 * (0.05 * 0.95 / times) ** 0.5
    assert alone / times > 0.3  # without the correction chance looks sure again and again


def test_each_family_has_its_own_baseline(make_record):
    records = [
        make_record(SURE, reweight="dr"),
        make_record(BASE),
        make_record([v + 0.1 for v in BASE[::-1]], reweight="static"),
        make_record(SURE, reweight="dr", content_hash="other"),
        make_record([v + 0.1 for v in SURE], content_hash="other"),
    ]
    plain, static, constant = (gate_tests(records, gate) for gate in (None, "static", "constant"))
    assert [test.sign for test in plain] == ["up", "down"]
    assert counts(plain) == {"up": 1, "down": 1, "unsure": 0}
    assert [test.sign for test in static] == ["unsure"]
    assert constant == []


def test_rows_that_share_one_seed_are_not_compared(make_record):
    records = [make_record([0.9, 0.8], reweight="dr"), make_record([0.8, 0.9], first_seed=1)]
    assert gate_tests(records, None) == []


def test_the_table_says_its_size_and_its_tests(make_record):
    tests = gate_tests([make_record(SURE, reweight="dr"), make_record(BASE)], None)
    table = gate_test_table(tests, None)
    assert table.name == "dr-plain"
    ((setting, difference, *_, seeds, sign),) = table.rows
    assert (setting, seeds, sign) == ("cora, full: gcn", "8", "up")
    assert difference == str(tests[0].test.gain)
    assert table.kinds == ("above",)
    assert "family of 1 paired t-tests" in table.notes[0]
    assert "Holm" in table.notes[0]
    assert "sign-flip" in table.notes[0]
    assert "of 1 comparisons" in count_words(tests, None)


def test_a_check_that_few_seeds_cannot_pass_says_so(make_record):
    few = [make_record(SURE[:4], reweight="dr"), make_record(BASE[:4])]
    table = gate_test_table(gate_tests(few, None), None)
    assert "Over 4 seeds it cannot fall below 0.12" in table.notes[0]
    assert table.rows[0][-1] == "up; flip differs"


def test_small_p_values_are_bounds():
    assert [p_words(p) for p in (0.5, 0.1, 0.0123, 0.00009, 0.0)] == [
        *("0.50", "0.10", "0.012", "< 0.0001", "< 0.0001")
    ]
