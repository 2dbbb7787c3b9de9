"""Verdicts on printed numbers, each for its reason."""

from dataclasses import replace

import numpy as np
import pytest

from drgcn.errors import DrgcnWarning
from drgcn.records import BaselineRecord, BaselineResult
from drgcn.stats import printed_difference
from drgcn.studies.paper.page import paper_table_of
from drgcn.studies.report.contents import contents
from drgcn.studies.report.verdicts import (
    CellRows,
    FailedJobs,
    JudgedTable,
    count_verdicts,
    judge,
    judge_number,
    judge_table,
    judged_tables,
    overview,
)
from drgcn.studies.reproduce.jobs import Failure


@pytest.fixture
def record(make_record, with_data):
    """Twenty seeds of mean 86.0 and deviation 0.31 or so."""

    def make(mean=0.86, seeds=20, facts=None, **experiment):
        values = mean + 0.003 * np.where(np.arange(seeds) % 2, 1, -1)
        return with_data(make_record(values.tolist(), **experiment), **(facts or {}))

    return make


@pytest.mark.parametrize(
    ("printed", "verdict"),
    [
        ("86.1 ± 0.3", "reproduced"),
        ("86.4 ± 0.3", "below"),
        ("85.6 ± 0.3", "above"),
        ("86.4 ± 2.0", "reproduced"),
        ("86.5", "below"),
        ("86.1", "reproduced"),
        ("86", "reproduced"),
    ],
)
def test_the_interval_decides(record, make_cell, make_table, printed, verdict):
    cell = make_cell(printed, reweight="static")  # of which no other table prints a deviation
    found = judge(make_table(cell), cell, CellRows([record(reweight="static")]))
    assert found.verdict == verdict
    number = found.cell.printed
    wanted = printed_difference(
        [100 * r.test_accuracy for r in record().seeds.values()], number.mean, number.std, 20
    )
    assert found.difference == wanted


def test_rounding_is_half_of_the_last_printed_digit():
    def verdict(mean, decimals):
        return judge_number([mean - 1e-7, mean + 1e-7], 80.0, None, decimals)[1]

    assert verdict(80.05, 1) == verdict(79.995, 2) == verdict(80.5, 0) == "reproduced"
    assert verdict(80.051, 1) == "above"
    assert verdict(79.9949, 2) == "below"


def test_rounding_and_our_interval_add_up():
    """1.00 may stand for 1.005, which lies in the interval of ours."""
    ours = [1.009, 1.0, 1.015, 1.012]
    assert judge_number(ours, 1.0, None, 2)[1] == "reproduced"
    assert judge_number(ours, 1.0, None, 4)[1] == "reproduced"
    close = [1.009, 1.0085, 1.0095, 1.009]
    assert judge_number(close, 1.0, None, 2)[1] == "above"
    assert judge_number([1.0055, 1.0045, 1.0065, 1.0055], 1.0, None, 2)[1] == "reproduced"
    assert judge_number([1.0055, 1.0045, 1.0065, 1.0055], 1.0, None, 4)[1] == "above"


def test_a_printed_k_may_be_that_of_one_run(record, make_cell, make_table):
    """Its spread is then that of ours: of which 1.00 is one more draw, though not their mean."""
    spread = [1.012 + 0.006 * (-1) ** i for i in range(20)]
    seeds = record(reweight="dr").seeds.items()
    changed = {s: replace(r, k=[v, v + 0.01]) for (s, r), v in zip(seeds, spread, strict=True)}
    rows = CellRows([replace(record(reweight="dr"), seeds=changed)])
    for printed, quantity, verdict in (
        ("1.00", "k1", "reproduced"),
        ("1.00", "k2", "above"),
        ("1.00 ± 0.01", "k1", "above"),  # a deviation is of several runs
    ):
        cell = make_cell(printed, reweight="dr", quantity=quantity)
        assert judge(make_table(cell), cell, rows).verdict == verdict
    assert judge_number(spread, 1.0, None, 2)[1] == "above"


def test_a_deviation_printed_elsewhere_holds(record, make_cell, make_table):
    """Table 12 prints 86.4 ± 0.3 and 86.8 ± 0.2 for these rows."""
    plain, dr = record(0.862), record(0.865, reweight="dr")

    def difference(cell):
        return judge(make_table(cell), cell, CellRows([plain, dr])).difference

    assert difference(make_cell("86.41")) == printed_difference(
        [100 * r.test_accuracy for r in plain.seeds.values()], 86.41, 0.3, 20
    )
    bare = difference(make_cell("86.51"))
    assert bare.high - bare.low < difference(make_cell("86.41")).high - bare.low
    over = difference(make_cell("0.40", reweight="dr", quantity="gain"))
    gains = [0.3] * 20
    assert over.low == pytest.approx(printed_difference(gains, 0.4, 0.13**0.5, 20).low)
    k = difference(make_cell("1.00", reweight="dr", quantity="k1"))
    assert k.low == k.high


def test_a_gain_is_of_one_build(record, make_cell, make_table):
    def by(one, source):
        return replace(one, environment=one.environment | {"source": source})

    plain, dr = record(0.86), record(0.87, reweight="dr")
    cell = make_cell("1.0", reweight="dr", quantity="gain")
    found = judge(make_table(cell), cell, CellRows([by(plain, "a"), by(dr, "b")]))
    assert (found.verdict, found.values) == ("not comparable", ())
    assert "two builds" in found.reason
    rows = CellRows([by(plain, "a"), by(dr, "b"), by(record(0.88, 19, reweight="dr"), "a")])
    assert rows.values(cell) == pytest.approx([2.0] * 19)


@pytest.mark.parametrize("values", [[80.0], [80.0, float("nan")], []])
def test_one_value_none_or_no_number_is_not_comparable(values):
    for std in (None, 0.3):
        assert judge_number(values, 79.0, std, 1)[1] == "not comparable"


def test_equal_values_are_judged_as_known():
    assert judge_number([80.0] * 20, 80.0, 0.0, 1)[1] == "reproduced"
    assert judge_number([80.0] * 20, 79.0, 0.0, 1)[1] == "above"
    assert judge_number([80.0] * 20, 81.0, None, 1)[1] == "below"


def test_a_difference_that_rounding_hides_is_none(record, make_cell, make_table):
    """Surely 0.04 above, but 86.0 may stand for 86.04."""
    cell = make_cell("86.0")
    spread = [100 * 0.8604 + 1e-4 * (-1) ** i for i in range(20)]
    seeds = record().seeds
    changed = {
        s: replace(r, test_accuracy=v / 100)
        for (s, r), v in zip(seeds.items(), spread, strict=True)
    }
    found = judge(make_table(cell), cell, CellRows([replace(record(), seeds=changed)]))
    assert found.difference.low > 0
    assert found.verdict == "reproduced"
    fine = make_cell("86.00")
    assert (
        judge(make_table(fine), fine, CellRows([replace(record(), seeds=changed)])).verdict
        == "above"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"facts": {"feature_source": "rebuilt: from titles"}}, "rebuilt features"),
        ({"facts": {"feature_source": "generated"}}, "made-up data"),
        ({"seeds": 10}, "10 of 20 seeds"),
    ],
)
def test_what_is_not_the_same_is_not_compared(record, make_cell, make_table, changes, reason):
    cell = make_cell()
    found = judge(make_table(cell), cell, CellRows([record(**changes)]))
    assert (found.verdict, found.reason) == ("not comparable", reason)
    assert found.difference is not None
    assert found.words == f"not comparable: {reason}"


def test_other_trainings_and_scalings_are_not_the_cell(record, make_cell, make_table):
    cell = make_cell()
    others = [record(epochs=100), record(facts={"normalize": "standard"}), record(reweight="dr")]
    others.append(record(facts={"options": {"nodes": 200}}))
    found = judge(make_table(cell), cell, CellRows(others))
    assert (found.verdict, found.values) == ("not run", ())
    assert "drgcn reproduce own" in found.reason


def test_of_two_contents_the_one_with_more_seeds_counts(record, make_cell):
    rows = CellRows(
        [record(0.7, 12, content_hash="a"), record(0.8), record(0.9, 8, content_hash="c")]
    )
    assert np.mean(rows.values(make_cell())) == pytest.approx(80)


def test_cells_that_cannot_be_run_say_why(make_cell, make_table):
    cell = make_cell(job=None, reason="the data is private")
    assert judge(make_table(cell), cell, CellRows([])).words == "not run: the data is private"


def test_a_job_that_failed_is_the_reason(make_cell, make_table, tmp_path):
    cell = make_cell()
    ran = cell.job.experiment
    failure = Failure("cora", ran.to_dict(), "row", [0], "out of memory", "", 2, "today", {})
    (tmp_path / "failures").mkdir()
    failure.save(tmp_path / "failures" / "a.json")
    rows = CellRows([], FailedJobs(tmp_path))
    found = judge(make_table(cell), cell, rows)
    assert found.words == "not run: it failed (out of memory)"
    other = make_cell(normalize="standard")
    assert "failed" not in judge(make_table(other), other, rows).words
    (tmp_path / "failures" / "b.json").write_text("{")
    with pytest.warns(DrgcnWarning, match="damaged failure"):
        assert FailedJobs(tmp_path).error(cell.job) == "out of memory"


def test_a_gain_is_paired_and_k_is_of_its_layer(record, make_cell):
    plain, dr = record(0.86), record(0.87, reweight="dr")
    rows = CellRows([plain, dr])
    assert rows.values(make_cell(reweight="dr", quantity="gain")) == pytest.approx([1.0] * 20)
    assert rows.values(make_cell(reweight="dr", quantity="k1")) == [0.5] * 20
    assert rows.values(make_cell(reweight="dr", quantity="k2")) == [1.0] * 20
    assert CellRows([dr]).values(make_cell(reweight="dr", quantity="gain")) == []


def test_times_are_never_compared(record, make_cell, make_table):
    cell = make_cell("17.99", quantity="seconds")
    found = judge(make_table(cell), cell, CellRows([record()]))
    assert found.values == (0.125,)  # 1.25 seconds of ten epochs
    assert found.verdict == "not comparable"
    assert "a machine" in found.reason


@pytest.mark.parametrize(
    ("row", "printed", "verdict"),
    [
        ("Nodes/Users", "2,708", "reproduced"),
        ("Training Nodes(Full)", "1,208", "reproduced"),
        ("Test Nodes", "999", "above"),
        ("Edges", "5,429", "below"),
        ("Friends", "3", "not run"),
    ],
)
def test_counts_of_data_are_the_same_or_not(record, make_cell, make_table, row, printed, verdict):
    cell = make_cell(printed, row=row, quantity="count", job=None)
    assert judge(make_table(cell), cell, CellRows([record()])).verdict == verdict


def test_all_verdicts_of_a_table_are_counted(record, make_cell, make_table):
    cells = [make_cell("86.0 ± 0.3"), make_cell("80.0 ± 0.3"), make_cell(job=None, reason="lost")]
    cells += [make_cell(None, job=None), make_cell("88.0", note="An odd number.")]
    table = make_table(*cells)
    rows = CellRows([record()])
    found = judge_table(table, rows)
    assert [one.verdict for one in found] == ["reproduced", "above", "not run", "below"]
    assert count_verdicts(found)["below"] == 1
    (judged,) = judged_tables([table], rows)
    counts = ("4", "1", "1", "1", "0", "1")
    assert overview([judged]).rows == (("Table 99 (made here)", *counts),)


def test_the_table_has_published_beside_ours_and_remarks_below(record, make_cell, make_table):
    cells = [
        make_cell("86.0 ± 0.3"),
        make_cell("88.0", note="An odd number."),
        make_cell(job=None, reason="lost"),
    ]
    table = make_table(*cells)
    run, missing = JudgedTable(table, tuple(judge_table(table, CellRows([record()])))).tables
    assert run.rows[0][:4] == ("GCN", "Cora 0", "86.0 ± 0.3", "86.00 ± 0.31")
    assert run.rows[0][-2:] == ("20", "reproduced")
    assert run.rows[1][0] == "GCN (a)"
    assert run.notes == ("(a) An odd number.",)
    assert run.kinds == ("reproduced", "below")
    assert all(picture.startswith("<svg") for picture in run.pictures)
    assert missing.rows == (("GCN", "Cora 2", "86.4 ± 0.3", "not run: lost"),)
    assert missing.folded


def test_a_table_of_our_own_keeps_its_shape(record, make_cell, make_table):
    table = make_table(make_cell(None), make_cell(None, reweight="dr"), number=None)
    (own,) = JudgedTable(table, tuple(judge_table(table, CellRows([record()])))).tables
    assert own.heads == ("", "Cora 0", "Cora 1")
    assert own.rows == (("GCN", "86.00 ± 0.31", ""),)


def baseline_record(seeds, accuracy=0.7, **settings):
    spread = {seed: accuracy + 0.003 * (-1) ** seed for seed in seeds}
    return BaselineRecord(
        method="walker",
        settings=settings,
        data={"name": "cora", "split": "public", "content_hash": "0"},
        environment={},
        started="2026-01-01",
        seconds=1.0,
        seeds={seed: BaselineResult(value, 0.7) for seed, value in spread.items()},
    )


@pytest.mark.parametrize(
    ("printed", "seeds", "exact", "words"),
    [
        ("70.0", 20, False, "reproduced"),
        ("69.0", 20, False, "above"),
        ("70.0", 5, False, "not comparable: 5 of 20 seeds"),
        ("70.3", 1, True, "reproduced"),
        ("70.4", 1, True, "below"),
        ("70.0", 0, False, "not run: no record here yet; drgcn baselines cora --method walker"),
    ],
)
def test_a_baseline_is_judged_by_its_own_records(
    make_cell, make_table, printed, seeds, exact, words
):
    known = {"job": None, "reason": "run apart", "dataset": "cora", "split": "public"}
    cell = replace(make_cell(printed), **known, baseline="walker", exact=exact)
    records = [baseline_record(range(seeds))] if seeds else []
    found = judge(make_table(cell), cell, CellRows([], baselines=records))
    assert found.words == words
    assert len(found.values) == seeds


def test_settings_of_a_baseline_are_told_apart_and_never_guessed(make_cell, make_table):
    known = {"job": None, "dataset": "cora", "split": "public", "baseline": "walker"}
    cell = replace(make_cell("60.0"), **known)
    parts = [baseline_record(seeds, 0.6, walks=10) for seeds in (range(12), range(12, 20))]
    rows = CellRows([], baselines=[baseline_record(range(20), 0.9, walks=80), *parts])
    guess = judge(make_table(cell), cell, rows)
    assert guess.words.startswith("not comparable: 2 kinds of records of walker")
    told = judge(make_table(cell), replace(cell, baseline_settings={"walks": 10}), rows)
    assert (told.verdict, len(told.values)) == ("reproduced", 20)


def test_a_report_finds_the_baselines_beside_its_records(record, tmp_path):
    replace(baseline_record(range(20), walks=10), method="deepwalk").save(tmp_path / "baselines")
    whole = contents([record()], [paper_table_of("semi")], tmp_path)
    (shown,) = [table for table in whole.tables if table.name == "semi"]
    (found,) = [row for row in shown.rows if row[0] == "DeepWalk"]
    assert found[1:4] + found[5:] == ("Cora", "67.2", "70.00 ± 0.31", "20", "above")
