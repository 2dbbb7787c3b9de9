"""The example of docs/tuning.md is what the program wrote."""

import json
from pathlib import Path

import pytest

from drgcn.studies.records import RunRecord
from drgcn.studies.tuning.report import tuning_words

ROOT = Path(__file__).parents[3]
FOLDERS = [ROOT / "results" / "tuning" / name for name in ("wine", "wine-random")]


def read(folder):
    return json.loads((folder / "tuning.json").read_text())


def test_the_page_shows_the_report():
    page = (ROOT / "docs" / "tuning.md").read_text()
    shown = page.partition("<!-- output -->")[2].partition("<!-- /output -->")[0]
    assert shown.strip("`\n") == tuning_words(read(FOLDERS[1]))


def test_reports_from_before_there_were_strategies_are_read():
    assert "12 trials of 4 seeds" in tuning_words(read(FOLDERS[0]))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_report_is_that_of_its_records(folder):
    fresh = read(folder)["fresh"]
    for row in fresh["rows"]:
        (path,) = row["records"]
        seeds = RunRecord.read(folder / path).seeds
        assert sorted(seeds) == fresh["seeds"]
        accuracies = [seeds[seed].test_accuracy for seed in fresh["seeds"]]
        assert row["test_accuracy"] == accuracies
        mean = 100 * sum(accuracies) / len(accuracies)
        assert row["test_accuracy_mean"] == pytest.approx(mean, abs=1e-6)
