"""Tables and differences against formulas written out, on records that are written down."""

import math
import statistics

import numpy as np
import pytest
from scipy import stats

from drgcn.recommend.study.settings import StudyRecord, StudySettings, packed, unpacked
from drgcn.recommend.study.tables import (
    PAIRS,
    comparisons,
    decide_gates,
    difference_rows,
    recall_rows,
    verdict,
)
from drgcn.stats import holm

SEEDS = 5


def record(gate, seed, recalls, lr=1e-3):
    """A record whose users have these recalls."""

    def measures(mean):
        one = {"mean": mean, "users": len(recalls)}
        return {"recall": one, "hit_rate": one, "ndcg": {**one, "mean": mean / 2}}

    empty = {name: {"mean": None, "users": 0} for name in ("recall", "hit_rate", "ndcg")}
    groups = {"all": measures(float(np.mean(recalls))), "warm": measures(0.5), "cold": empty}
    plain = {group: {"recall": 0.01, "hit_rate": 0.01, "ndcg": 0.01} for group in groups}
    return StudyRecord(
        settings=StudySettings(gate=gate, seed=seed, lr=lr, n=(20,)),
        data={
            **{"name": "made", "content_hash": "x", "split": "by hand"},
            "parts": {"train": 2048, "valid": 10, "test": 10},
        },
        purpose="compare",
        model={},
        environment={},
        started="",
        seconds={"train": 2.0, "test": 1.0},
        choice={"best_step": 3, "best_recall": 0.4, "steps": 5, "stopped": "limit"},
        history=[],
        trained_steps=3,
        test={"20": {"model": groups, "popularity": plain, "chance": plain}},
        user_recall=packed(np.asarray(recalls)),
    )


@pytest.fixture
def values():
    """Recall by gate, seed and user, in quarters so that they are exact in any precision."""
    draw = np.random.default_rng(4)
    shift = {"none": 0, "constant": 0, "static": 1, "dr": 1}
    return {g: draw.integers(0, 4, (SEEDS, 40)) / 4 + by / 4 for g, by in shift.items()}


@pytest.fixture
def comparison(values):
    records = [record(g, s, row) for g, rows in values.items() for s, row in enumerate(rows)]
    (found,) = comparisons(records)
    return found


def test_differences_are_paired_t_intervals_and_holm_over_all(values, comparison):
    (found,) = decide_gates([comparison])
    assert [(one.gate, one.against) for one in found] == list(PAIRS)
    p_values = []
    for one in found:
        means = {name: 100 * values[name].mean(axis=1) for name in (one.gate, one.against)}
        points = [a - b for a, b in zip(means[one.gate], means[one.against], strict=True)]
        mean = sum(points) / SEEDS
        reach = 2.7764451051977987 * statistics.stdev(points) / math.sqrt(SEEDS)
        gain = one.decision.test.gain
        assert (gain.mean, gain.low, gain.high) == pytest.approx(
            (mean, mean - reach, mean + reach)
        )
        p_values.append(stats.ttest_rel(means[one.gate], means[one.against]).pvalue)
        assert one.decision.test.p == pytest.approx(p_values[-1])
    assert [one.decision.p_holm for one in found] == pytest.approx(holm(p_values))


def test_over_users_each_is_averaged_over_seeds_first(values, comparison):
    one = decide_gates([comparison])[0][0]
    users = [
        100 * sum(values["dr"][s][u] - values["none"][s][u] for s in range(SEEDS)) / SEEDS
        for u in range(40)
    ]
    reach = 1.959963984540054 * statistics.stdev(users) / math.sqrt(40)
    assert one.over_users.mean == pytest.approx(sum(users) / 40)
    assert one.over_users.high - one.over_users.mean == pytest.approx(reach)
    assert one.over_users.mean == pytest.approx(one.decision.test.gain.mean)


def test_only_shared_seeds_count(values):
    records = [record("none", s, values["none"][s]) for s in range(3)]
    records += [record("dr", s, values["dr"][s]) for s in (1, 2, 4)]
    (found,) = comparisons(records)
    assert found.pairs() == [("dr", "none")]
    points = [100 * (values["dr"][s].mean() - values["none"][s].mean()) for s in (1, 2)]
    assert found.differences("dr", "none") == pytest.approx(points)


def test_other_settings_are_never_compared(values):
    records = [record("none", 0, values["none"][0]), record("dr", 0, values["dr"][0], lr=1e-2)]
    found = comparisons(records)
    assert len(found) == 2
    assert all(not one.pairs() for one in found)


def test_tables_say_what_the_records_say(values, comparison):
    table = recall_rows(comparison)
    means = 100 * values["static"].mean(axis=1)
    row = next(row for row in table.rows if row[0] == "static")
    assert row[1:3] == ["5", f"{means.mean():.2f} ± {means.std(ddof=1):.2f}"]
    cells = dict(zip(table.heads, row, strict=True))
    assert (cells["no plateau"], cells["seconds"], cells["best epoch"]) == ("5", "3", "3.0")
    assert [row[0] for row in table.rows][-2:] == ["popular items", "random items"]
    assert "cold" not in " ".join(table.heads)  # there is nobody
    lines = difference_rows([comparison, comparison]).markdown().splitlines()
    assert len(lines) == 2 + 2 * len(PAIRS)
    one = [float(r[5]) for r in difference_rows([comparison]).rows]
    two = [float(r[5]) for r in difference_rows([comparison, comparison]).rows[: len(PAIRS)]]
    assert all(b >= a for a, b in zip(one, two, strict=True))  # the family has grown


def test_verdicts(values, comparison):
    words = verdict(decide_gates([comparison])[0])
    assert words.startswith("Dr is surely above none, constant (against none ")
    assert words.endswith("; paired t-test, Holm over 5 comparisons).")
    both = decide_gates([comparison, comparison])
    assert all("Holm over 10 comparisons" in verdict(one) for one in both)
    (same,) = comparisons(
        record(g, s, values["none"][(s + k) % SEEDS])
        for k, g in enumerate(("none", "dr"))
        for s in range(SEEDS)
    )
    words = verdict(decide_gates([same])[0])
    assert words.startswith("Dr makes no sure difference")
    assert words.endswith("paired t-test, one comparison).")
    (single,) = comparisons([record("dr", 0, values["dr"][0])])
    assert "no comparison" in verdict(decide_gates([single])[0])


def test_user_values_survive_packing():
    drawn = np.random.default_rng(0).random(1000).astype(np.float32)
    assert (unpacked(packed(drawn)) == drawn).all()
    assert packed(np.zeros(300_001)) == ""
