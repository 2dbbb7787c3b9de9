"""Hardware, versions, and the wall time of whole suites."""

from dataclasses import replace

import pytest

from drgcn.errors import DrgcnWarning
from drgcn.studies.report.contents import (
    device_table,
    readable_suites,
    suite_table,
    version_words,
)
from drgcn.studies.report.measurements import epoch_time_table
from drgcn.studies.reproduce.jobs import SuiteRecord

SUITE = SuiteRecord(
    started="2026-01-02T03:04:05+00:00",
    ending="finished",
    tables=["main", "full"],
    only={"dataset": ["cora"]},
    controls=True,
    workers=3,
    threads=1,
    wall_seconds=754.2,
    job_seconds=2000.0,
    jobs=40,
    failed=1,
    cells=26,
    seeds_trained=800,
    seeds_recorded=20,
    environment={"device": "a machine"},
)


def test_suites_show_their_wall_time(tmp_path):
    SUITE.save(tmp_path)
    replace(SUITE, started="2026-01-03T00:00:00+00:00", seeds_trained=0).save(tmp_path)
    (row,) = suite_table(readable_suites(tmp_path)).rows
    assert row == (
        *("main full, dataset cora", "2026-01-02 03:04", "12 min 34 s", "26", "800", "20"),
        *("40, 1 failed", "3", "a machine", "finished"),
    )


def test_jobs_of_others_are_told_apart(tmp_path):
    replace(SUITE, failed=0, jobs_of_others=2).save(tmp_path)
    (row,) = suite_table(readable_suites(tmp_path)).rows
    assert row[6] == "40, 2 more by others"


def test_a_damaged_suite_is_named_and_hides_no_other(tmp_path):
    SUITE.save(tmp_path)
    (tmp_path / "suites" / "cut.json").write_text("{")
    with pytest.warns(DrgcnWarning, match=r"cut\.json"):
        assert len(suite_table(readable_suites(tmp_path)).rows) == 1


def test_without_suites_there_is_no_table(tmp_path):
    assert suite_table(readable_suites(tmp_path)) is None
    assert suite_table(readable_suites(None)) is None


def test_machines_and_versions_are_those_of_the_records(make_record):
    first, second = make_record([0.8, 0.9]), make_record([0.8], epochs=100)
    other = replace(second, environment={**second.environment, "device": "another", "torch": "3"})
    table = device_table([first, other, make_record([0.7], epochs=7)])
    assert table.rows[0][:4] == ("a machine", "2", "3", "2.5 s")
    assert table.rows[1][:4] == ("another", "1", "1", "1.2 s")
    assert "torch 2, 3; PyG 2;" in version_words([first, other])


def test_an_epoch_is_a_share_of_the_record(make_record):
    record = replace(make_record([0.8, 0.9]), seconds=3.0)
    seeds = {**record.seeds, 1: replace(record.seeds[1], epochs=30)}
    (row,) = epoch_time_table([replace(record, seeds=seeds)]).rows
    assert row == ("cora", "full", "gcn", "2", "30", "3.0", "100", "50", "a machine")


@pytest.mark.parametrize(
    ("started", "workers", "words"),
    [
        ("2026-01-02T03:10:00+00:00", 3, ", shared by 3 jobs"),
        ("2026-01-02T03:10:00+00:00", 1, ""),
        ("2026-01-02T03:00:00+00:00", 3, ""),
        ("2026-01-02T03:30:00+00:00", 3, ""),
    ],
)
def test_a_shared_device_says_so(make_record, started, workers, words):
    record = replace(make_record([0.8, 0.9]), started=started)
    (row,) = epoch_time_table([record], [replace(SUITE, workers=workers)]).rows
    assert row[-1] == "a machine" + words
