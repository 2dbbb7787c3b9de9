"""Families of comparisons: who is compared, and how often chance looks sure."""

from dataclasses import replace

import numpy as np

from drgcn.stats import holm
from drgcn.studies.report.gate_tests import (
    Family,
    decide_groups,
    families,
    gain_rows,
    gain_rows_chart,
    gate_test_table,
    gate_tests,
    panel_sizes,
    words,
)
from drgcn.studies.report.tables import gate_groups

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


def test_p_values_are_corrected_over_the_family(make_record):
    tests = gate_tests(cells(make_record, np.random.default_rng(0), 7, gain=0.015), None)
    assert len(tests) == 7
    assert [t.decision.p_holm for t in tests] == holm([t.test.p for t in tests])
    assert [t.decision.flip_holm for t in tests] == holm([t.test.p_flip for t in tests])
    assert {t.decision.correction for t in tests} == {"paired t-test, Holm over 7 comparisons"}


def test_blocks_and_tables_of_a_page_judge_alike(make_record):
    records = cells(make_record, np.random.default_rng(0), 7, gain=0.015)
    records.append(make_record(SURE, content_hash="3", reweight="static"))
    found = decide_groups(gate_groups(records))
    assert [one["dr", None] for one in found] == [t.decision for t in gate_tests(records, None)]
    (with_static,) = [one for one in found if len(one) > 1]
    (alone,) = gate_tests(records, "static")
    assert with_static["dr", "static"] == alone.decision
    assert with_static["static", None].family == 1


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
    every = families(records)
    assert [every[None].count(sign) for sign in ("up", "down", "unsure")] == [1, 1, 0]
    assert every["static"].tests == tuple(static)
    assert [test.sign for test in static] == ["unsure"]
    assert constant == []


def test_rows_that_share_one_seed_are_not_compared(make_record):
    records = [make_record([0.9, 0.8], reweight="dr"), make_record([0.8, 0.9], first_seed=1)]
    assert gate_tests(records, None) == []


def test_the_table_says_its_size_and_its_tests(make_record):
    family = families([make_record(SURE, reweight="dr"), make_record(BASE)])[None]
    table = gate_test_table(family)
    assert table.name == "dr-plain"
    ((setting, difference, *_, seeds, sign),) = table.rows
    assert (setting, seeds, sign) == ("cora, full: gcn", "8", "up")
    assert difference == str(family.tests[0].test.gain)
    assert table.kinds == ("above",)
    assert "paired t-test, one comparison" in table.notes[0]
    assert "sign-flip" in table.notes[0]


def test_a_check_that_few_seeds_cannot_pass_says_so(make_record):
    few = [make_record(SURE[:4], reweight="dr"), make_record(BASE[:4])]
    table = gate_test_table(families(few)[None])
    assert "Over 4 seeds it cannot fall below 0.12" in table.notes[0]
    assert table.rows[0][-1] == "up; flip differs"
    enough = families([make_record(SURE, reweight="dr"), make_record(BASE)])[None]
    assert "cannot fall" not in gate_test_table(enough).notes[0]


def test_a_family_knows_its_extremes_and_leaves_made_up_data_out(make_record, with_data):
    records = []
    for place, gain in enumerate((0.0, -0.02, 0.03, 0.01, 0.1)):
        source = "generated" if place == 4 else "published"
        for gate in (None, "dr"):
            values = [v + gain * (gate == "dr") + 0.001 * (v > 0.81) for v in BASE]
            record = make_record(values, reweight=gate, content_hash=str(place))
            records.append(with_data(record, name=f"set {place}", feature_source=source))
    family = families(records)[None]
    assert (family.best.name, family.worst.name) == ("set 4", "set 1")
    assert len(family.real) == 4
    assert family.count("up") - family.count("up", real=True) == 1
    assert [round(value, 6) for value in family.middle] == [0, 1, 3]
    assert Family(None, family.tests[:4], ()).middle == []
    (line,) = words("headline", plain=family)
    assert "better than the plain model in 3, surely worse in 1" in line


def test_the_picture_has_every_gate_beside_the_others_and_says_what_is_missing(make_record):
    records = cells(make_record, np.random.default_rng(0), 3, gain=0.03)
    rows = gain_rows(records)
    gains = [row.test.test.gain.mean for row in rows]
    assert gains == sorted(gains, reverse=True)
    assert panel_sizes(rows) == [3]  # no control was run: there is no panel of them
    other = make_record([v + 0.1 for v in SURE], content_hash="1", reweight="static")
    elsewhere = {**other.environment, "source": "another"}
    for extra, shown in (
        (other, "static gate - plain"),
        (replace(other, environment=elsewhere), "two builds"),
    ):
        rows = gain_rows([*records, extra])
        assert {row.controls["constant"] for row in rows} == {"not run"}
        for phone in (False, True):
            assert (shown if not phone else shown.replace(" gate", "")) in gain_rows_chart(
                rows, phone=phone
            )
    assert panel_sizes(gain_rows([*records, other])) == [3, 1]
