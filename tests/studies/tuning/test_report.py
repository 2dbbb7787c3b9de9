import json
from dataclasses import replace

import pytest
import torch

from drgcn.errors import InputError
from drgcn.records import load_sealed
from drgcn.studies.comparison import gain
from drgcn.studies.experiment import recipe
from drgcn.studies.run import run
from drgcn.studies.tuning.report import (
    earlier_looks,
    tuning_report,
    tuning_words,
    write_report,
)
from drgcn.studies.tuning.search import Search, run_searches
from drgcn.studies.tuning.space import SettingRange

USUAL = recipe("planted", "random", hidden_channels=8, epochs=6)
SPACE = (SettingRange("lr", 1e-2, 1e-1, log=True), SettingRange("dropout", 0.0, 0.8))


def make(tiny, out, trials, fresh=range(2, 5), asked=None):
    """A report on plain and Dr, its searches, and the runs on fresh seeds behind it."""
    rows = (USUAL, replace(USUAL, reweight="dr"))
    searches = [Search(row, tiny, SPACE, out, seeds=(0, 1)) for row in rows]
    run_searches(searches, trials)
    outcomes = [
        tuple(
            run(e, tiny, fresh, out / "fresh") for e in (search.experiment, search.chosen(trials))
        )
        for search in searches
    ]
    report = tuning_report(
        searches,
        outcomes,
        tiny.dataset,
        trials=trials,
        trials_asked=asked or trials,
        timeout=None,
        device=torch.device("cpu"),
        out=out,
    )
    return report, searches, outcomes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tuned")


@pytest.fixture(scope="module")
def made(tiny, folder):
    """Three trials of nine that were asked for, and three fresh seeds."""
    return make(tiny, folder, 3, asked=9)


def test_a_report_holds_all_that_is_needed_to_judge_it(made, tiny, tmp_path):
    report, searches, _ = made
    path = write_report(report, tmp_path)
    assert load_sealed(path) == report
    assert report["data"]["content_hash"] == tiny.dataset.content_hash
    assert report["budget"]["trials"] == 3
    assert report["budget"]["seeds"] == [0, 1]
    assert report["space"]["lr"] == {"low": 0.01, "high": 0.1, "log": True, "whole": False}
    assert {"torch", "drgcn", "source", "device"} <= report["environment"].keys()
    assert report["sampler"]["strategy"] == "random"
    assert report["budget"]["lane_epochs"] == 3 * 2 * USUAL.epochs
    assert report["hardware"] == [report["environment"]["device"]]
    for found, search in zip(report["searches"], searches, strict=True):
        assert found["epochs"] == 3 * 2 * USUAL.epochs
        assert found["seconds"] > 0
        values = [trial.value for trial in search.trials]
        assert found["best_so_far"] == [max(values[: n + 1]) for n in range(3)]
        assert found["best"]["val_accuracy"] == max(values)


def test_only_fresh_seeds_are_reported(made, folder):
    report, _, outcomes = made
    fresh = report["fresh"]
    assert fresh["seeds"] == [2, 3, 4]
    assert not set(fresh["seeds"]) & set(report["budget"]["seeds"])
    names = [(row["row"], row["tuned"]) for row in fresh["rows"]]
    assert names == [("gcn", False), ("gcn", True), ("gcn + dr", False), ("gcn + dr", True)]
    for row, outcome in zip(fresh["rows"], (o for pair in outcomes for o in pair), strict=True):
        assert row["test_accuracy"] == [outcome.seeds[s].test_accuracy for s in (2, 3, 4)]
        assert all((folder / record).is_file() for record in row["records"])
    assert "test_accuracy" not in json.dumps(report["searches"])


def test_rows_are_compared_tuned_with_tuned(made):
    report, _, ((plain, plain_tuned), (dr, dr_tuned)) = made
    expected = [
        ("gcn, tuned", "untuned", plain_tuned, plain),
        ("gcn + dr, tuned", "untuned", dr_tuned, dr),
        ("gcn + dr, untuned", "gcn, untuned", dr, plain),
        ("gcn + dr, tuned", "gcn, tuned", dr_tuned, plain_tuned),
    ]
    for found, (of, over, one, other) in zip(
        report["fresh"]["differences"], expected, strict=True
    ):
        by_hand = gain(one.seeds, other.seeds)
        assert (found["of"], found["over"]) == (of, over)
        assert found["mean"] == pytest.approx(by_hand.mean, abs=1e-6)
        assert (found["low"], found["high"]) == pytest.approx((by_hand.low, by_hand.high))


@pytest.mark.slow
def test_searching_on_after_a_look_at_the_test_nodes_is_told(tiny, tmp_path):
    report, *_ = make(tiny, tmp_path, 2)
    write_report(report, tmp_path)
    assert report["tested_after"] == [2]
    assert "looked at" not in tuning_words(report)
    report, *_ = make(tiny, tmp_path, 3)
    assert report["tested_after"] == [2, 3]
    assert "only the first look was blind" in tuning_words(report)


def test_words_have_budget_settings_and_verdicts(made):
    report, *_ = made
    words = tuning_words(report)
    assert "9 were asked for, but time was up" in words
    assert "Test labels were hidden" in words
    assert "space: lr=0.01:0.1:log dropout=0:0.8" in words
    assert "strategy: random; budget of a row: 36 lane-epochs" in words
    assert "fresh seeds 2 to 4" in words
    row = report["fresh"]["rows"][3]
    assert f"{row['test_accuracy_mean']:.2f} ± {row['test_accuracy_std']:.2f}" in words
    assert "gcn + dr, tuned over gcn, tuned: " in words


def test_one_fresh_seed_has_no_interval(tiny, tmp_path):
    report, *_ = make(tiny, tmp_path, 1, fresh=range(2, 3))
    write_report(report, tmp_path)  # would refuse NaN and infinity
    words = tuning_words(report)
    assert "one seed allows no interval" in words
    assert "fresh seed 2\n" in words


def test_a_report_is_replaced_whole_or_not_at_all(tmp_path):
    write_report({"a": 1}, tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        write_report({"a": float("nan")}, tmp_path)
    assert load_sealed(tmp_path / "tuning.json") == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["tuning.json"]


@pytest.mark.parametrize("changed", ["[2, 30]", '"no"', "[true]", "{"])
def test_a_report_that_was_changed_is_refused_and_not_forgotten(tmp_path, changed):
    path = write_report({"tested_after": [2, 3]}, tmp_path)
    assert earlier_looks(tmp_path) == [2, 3]
    text = path.read_text()
    path.write_text(text.replace(text[text.index("[") : text.index("]") + 1], changed))
    with pytest.raises(InputError, match=r"tuning\.json to be the report of a search"):
        earlier_looks(tmp_path)
    path.write_text('{"tested_after": [2]}')  # as it was before there were digests
    assert earlier_looks(tmp_path) == [2]
