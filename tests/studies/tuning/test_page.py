"""The example of docs/tuning.md is what the program wrote."""

import json
from pathlib import Path

import pytest

from drgcn.studies.records import RunRecord
from drgcn.studies.tuning.report import tuning_words

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "results" / "tuning" / "wine"
REPORT = json.loads((FOLDER / "tuning.json").read_text())


def test_the_page_shows_the_report():
    page = (ROOT / "docs" / "tuning.md").read_text()
    shown = page.partition("<!-- output -->")[2].partition("<!-- /output -->")[0]
    assert shown.strip("`\n") == tuning_words(REPORT)


def test_the_report_is_that_of_its_records():
    for row in REPORT["fresh"]["rows"]:
        (path,) = row["records"]
        seeds = RunRecord.read(FOLDER / path).seeds
        assert sorted(seeds) == REPORT["fresh"]["seeds"]
        accuracies = [seeds[seed].test_accuracy for seed in REPORT["fresh"]["seeds"]]
        assert row["test_accuracy"] == accuracies
        mean = 100 * sum(accuracies) / len(accuracies)
        assert row["test_accuracy_mean"] == pytest.approx(mean, abs=1e-6)
