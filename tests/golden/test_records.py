"""Every record under ``results`` reads back, byte for byte, under its own name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from drgcn.recommend.model.objectives import TrainSettings
from drgcn.recommend.study.settings import StudyRecord, packed, unpacked
from drgcn.records import BaselineRecord, Record, unsealed
from drgcn.studies.advice.evidence import dumps as dump_evidence
from drgcn.studies.advice.evidence import of_folder, packaged
from drgcn.studies.advice.feature_numbers import dumps as dump_measures
from drgcn.studies.advice.feature_numbers import load_measures
from drgcn.studies.records import RunRecord
from drgcn.studies.reproduce.jobs import SuiteRecord
from drgcn.studies.tuning.report import FILE, write_report

from .goldens import expect_json, sha

RESULTS = Path(__file__).parents[2] / "results"


def _expect(paths: Iterable[Path], check: Callable[[Path, str], list[str]], least: int) -> None:
    """Runs a check on every file and fails once, with all that is wrong."""
    paths = sorted(paths)
    assert len(paths) >= least
    wrong = []
    for path in paths:
        try:
            found = check(path, path.read_text(encoding="utf-8"))
        except Exception as error:  # whatever it is, it belongs to this file
            found = [f"{type(error).__name__}: {error}"]
        wrong += [f"{path.relative_to(RESULTS)}: {words}" for words in found]
    if wrong:
        pytest.fail("\n".join([f"{len(wrong)} failures:", *wrong[:40]]), pytrace=False)


def _run_records() -> list[Path]:
    return [path for path in RESULTS.rglob("*-seeds-*.json") if path.parent.name != "baselines"]


def _only_known(written: Any, dumped: Any) -> Any:
    """What was dumped, less the fields that the file was written before."""
    if isinstance(written, dict) and isinstance(dumped, dict):
        kept = {name: value for name, value in dumped.items() if name in written}
        return {name: _only_known(written[name], value) for name, value in kept.items()}
    return dumped


def _as_written(record: Record, text: str) -> str:
    """Dump a record with the digest that records have by now, if its file has one."""
    return record.sealed() if "sha256" in json.loads(text) else record.dumps()


def test_every_run_record_is_read_and_dumped_as_it_was_written():
    def check(path: Path, text: str) -> list[str]:
        record = RunRecord.loads(text, path.name)
        again = _as_written(record, text)
        wrong = [] if record.file_name == path.name else [f"calls itself {record.file_name}"]
        if record.experiment.identity(record.data["content_hash"])[:8] not in path.name:
            wrong.append("has another identity")
        if RunRecord.loads(again) != record or RunRecord.loads(again).dumps() != record.dumps():
            wrong.append("is another record when dumped")
        written, dumped = json.loads(text), json.loads(again)
        kept = _only_known(written, dumped)
        if json.dumps(kept) != json.dumps(written):
            wrong.append("is dumped with other values, or in another order")
        if kept == dumped and again != text:
            wrong.append("is not dumped byte for byte")
        return wrong

    _expect(_run_records(), check, least=352)


def test_run_records_from_before_some_fields_are_dumped_with_the_same_defaults():
    # Byte for byte: today's dump of every record, also of those that lack the newer fields.
    found = {}
    for path in sorted(_run_records()):
        text = path.read_text(encoding="utf-8")
        again = _as_written(RunRecord.loads(text, path.name), text)
        found[path.relative_to(RESULTS).as_posix()] = "as written" if again == text else sha(again)
    expect_json("run_record_dumps", found)


def test_every_record_of_a_baseline_is_read_and_dumped_byte_for_byte():
    def check(path: Path, text: str) -> list[str]:
        record = BaselineRecord.loads(text, path.name)
        wrong = [] if _as_written(record, text) == text else ["is dumped otherwise"]
        return wrong + ([] if record.file_name == path.name else [f"says {record.file_name}"])

    _expect((RESULTS / "baselines").glob("*.json"), check, least=31)


def test_every_record_of_the_recommend_study_is_read_and_dumped_byte_for_byte():
    def check(path: Path, text: str) -> list[str]:
        record = StudyRecord.loads(text, path.name)
        wrong = [] if _as_written(record, text) == text else ["is dumped otherwise"]
        if json.loads(text)["identity"] != record.identity:
            wrong.append("has another identity")
        if record.file_name != path.name:
            wrong.append(f"says {record.file_name}")
        if record.user_recall and unpacked(record.user_recall).dtype != "float64":
            wrong.append("has recalls of another kind")
        return wrong

    folder = RESULTS / "recommend"
    _expect([*folder.glob("compare-*.json"), *folder.glob("search-*.json")], check, least=106)


def test_recalls_of_users_are_unpacked_as_they_were_packed():
    found = {}
    for path in sorted((RESULTS / "recommend").glob("compare-*-seed-0.json")):
        recall = StudyRecord.loads(path.read_text(encoding="utf-8")).user_recall
        if recall:
            values = unpacked(recall)
            assert unpacked(packed(values)).tobytes() == values.tobytes()
            found[path.name] = sha(values.tobytes())
    assert found
    expect_json("user_recalls", found)


def test_the_runs_on_all_of_astar_have_settings_that_are_still_taken():
    def check(path: Path, text: str) -> list[str]:
        written = json.loads(text)["settings"]
        taken = asdict(TrainSettings(**written))
        return [] if taken == {"half_life": None, **written} else ["has other settings"]

    _expect((RESULTS / "recommend").glob("astar-*.json"), check, least=8)


def test_records_of_suites_are_read_and_saved_as_they_were_written(tmp_path):
    def check(path: Path, text: str) -> list[str]:
        saved = SuiteRecord.read(path).save(tmp_path)
        again, written = saved.read_text(encoding="utf-8"), json.loads(text)
        kept = _only_known(written, json.loads(again))
        wrong = [] if json.dumps(kept, indent=1) + "\n" == text else ["is saved otherwise"]
        if SuiteRecord.read(saved) != SuiteRecord.read(path):
            wrong.append("is another record when saved")
        return wrong + ([] if saved.name == path.name else [f"is saved as {saved.name}"])

    _expect((RESULTS / "suites").glob("*.json"), check, least=1)


def test_reports_of_searches_are_written_byte_for_byte(tmp_path):
    def check(path: Path, text: str) -> list[str]:
        facts = unsealed(json.loads(text))
        saved = write_report(facts, tmp_path)
        again = saved.read_text(encoding="utf-8")
        if "sha256" not in json.loads(text):  # as they had none at first
            again = json.dumps(unsealed(json.loads(again)), indent=1) + "\n"
        return [] if again == text else ["is written otherwise"]

    _expect((RESULTS / "tuning").rglob(FILE), check, least=1)


def test_measures_of_features_are_read_and_dumped_byte_for_byte():
    path = RESULTS / "features.json"
    assert dump_measures(load_measures(path)) == path.read_text(encoding="utf-8")


def test_the_evidence_of_all_records_is_that_of_the_package():
    assert dump_evidence(packaged()) == dump_evidence(of_folder(RESULTS))
    expect_json("evidence", sha(dump_evidence(packaged())))


def test_no_record_is_left_unread():
    read = {*_run_records(), *(RESULTS / "baselines").glob("*.json")}
    read |= {*(RESULTS / "recommend").glob("*.json"), *(RESULTS / "suites").glob("*.json")}
    read |= {*(RESULTS / "tuning").rglob(FILE), RESULTS / "features.json"}
    assert sorted(set(RESULTS.rglob("*.json")) - read) == []
