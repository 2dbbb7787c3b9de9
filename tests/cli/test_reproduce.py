"""``drgcn reproduce`` as a user meets it, on a table that takes a second."""

import functools
import json
import re
from dataclasses import dataclass, replace

import pytest
from typer.testing import CliRunner

import drgcn.cli.verbs
from drgcn.errors import DrgcnError
from drgcn.studies.records import load_records
from drgcn.studies.reproduce import backend, plan, processes
from drgcn.studies.reproduce.backend import attempt
from drgcn.studies.reproduce.jobs import JobReport, failures_in, suites_in
from drgcn.studies.reproduce.processes import ProcessRunner

from .. import children  # noqa: F401 - what is forked has imported torch already
from ..studies.reproduce.small_plan import cell, experiment, table_of, without_times


def tables():
    absent = replace(experiment("reddit", epochs=2), split="full")
    odd = experiment(epochs=2, options={"luck": 1})
    found = [
        table_of(
            [
                cell("GCN", "Wine", experiment(epochs=2)),
                cell("Dr-GCN", "Wine", experiment(epochs=2, reweight="dr")),
                cell("Others", "Wine", None, "not built here"),
            ],
            "small",
            seeds=2,
        ),
        table_of([cell("GCN", "Reddit", absent, "needs files")], "large"),
        table_of([cell("GCN", "Wine", None, "private")], "none"),
        table_of(
            [cell("Odd", "Wine", odd), cell("GCN", "Wine", experiment(epochs=3))], "odd", seeds=1
        ),
    ]
    return {table.name: table for table in found}


@dataclass(frozen=True)
class InThisProcess:
    """A backend without processes of its own, which take seconds to start."""

    workers: int
    threads: int | None

    @property
    def threads_each(self):
        return self.threads or 1

    def __call__(self, jobs, out, *, data_root, device, watch):
        for job in jobs:
            yield attempt(job, out, data_root=data_root, device=device)


@pytest.fixture
def forked(call, monkeypatch):
    """The same with worker processes."""
    runner = functools.partial(ProcessRunner, start="forkserver")
    monkeypatch.setattr(processes, "ProcessRunner", runner)
    return call


@pytest.fixture
def call(monkeypatch, tmp_path):
    """Runs the command in an empty folder; returns exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRGCN_DATA", str(tmp_path / "no-data"))
    monkeypatch.setenv("COLUMNS", "200")
    known = tables()
    good = {name: table for name, table in known.items() if name != "odd"}
    monkeypatch.setattr(plan, "paper_tables", lambda: good)
    monkeypatch.setattr(plan, "paper_table_of", known.__getitem__)
    monkeypatch.setattr(processes, "ProcessRunner", InThisProcess)

    def run(*words):
        result = CliRunner().invoke(drgcn.cli.verbs.app, ["reproduce", *words, "--device", "cpu"])
        if isinstance(result.exception, DrgcnError):
            return 2, result.stdout, str(result.exception)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


def test_a_dry_run_prints_the_plan_and_writes_nothing(call, tmp_path):
    code, out, _ = call("small", "--dry-run")
    assert code == 0
    assert "wine random gcn + dr [standard]" in out
    assert "2 of 2" in out
    assert "2 cells of 1 table, 4 jobs: 0 seeds on record, 8 to be trained in 4 jobs" in out
    assert "nothing to run for 1 cell of small: not built here" in out
    assert list(tmp_path.iterdir()) == []


def test_a_table_is_filled_and_the_wall_time_kept(forked, tmp_path):
    code, out, error = forked("small", "--jobs", "2", "--threads", "1")
    assert code == 0
    assert "8 to be trained in 4 jobs" in error
    assert "paper 86.8 ± 0.5" in out
    assert "(n=2)" in out
    assert "small: 2 of 3 cells filled" in out
    (ending,) = (line for line in out.splitlines() if "trained in" in line)
    assert re.fullmatch(
        r"8 seeds of 4 jobs trained in [^,]+ s, 0 seeds on record before", ending
    )  # the time once
    records = load_records(tmp_path / "results")
    assert {record.experiment.reweight for record in records} == {None, "dr", "static", "constant"}
    (kept,) = suites_in(tmp_path / "results")
    assert (kept.jobs, kept.cells, kept.seeds_trained, kept.failed) == (4, 2, 8, 0)
    assert (kept.tables, kept.ending, kept.workers, kept.threads) == (["small"], "finished", 2, 1)
    assert kept.wall_seconds > 0
    assert {"torch", "device", "drgcn", "python"} <= kept.environment.keys()

    code, out, error = forked("small", "--seeds", "3", "--no-controls")
    assert code == 0
    assert "4 seeds on record, 2 to be trained in 2 jobs" in error
    code, out, _ = forked("small", "--no-controls", "--seeds", "3")
    assert code == 0
    assert "nothing was left to train: 6 seeds on record before" in out
    assert "(n=3)" in out
    assert len(suites_in(tmp_path / "results")) == 2


def test_what_is_on_record_is_trained_again_in_another_folder(call, tmp_path):
    """In one build, however many the old records are of."""
    call("odd", "--only", "row=GCN", "--out", "old")
    (old,) = load_records(tmp_path / "old")
    other = replace(old, environment=old.environment | {"source": "another"})
    (path,) = (tmp_path / "old").glob("*-seeds-*.json")
    path.write_text(other.dumps())
    code, out, _ = call("--again", "old", "--out", "new")
    assert code == 0
    (new,) = load_records(tmp_path / "new")
    assert (new.identity, new.file_name) == (old.identity, path.name)
    assert new.build == old.build != other.build
    assert "recorded: 1 of 1 cell filled" in out
    assert call()[0] == 2
    for words, error in (
        (("--again", "new", "--out", "new"), "another folder"),
        (("--again", "nowhere"), "has none"),
    ):
        code, _, found = call("small", *words)
        assert code == 2
        assert error in found


def test_filters_choose_cells(call, tmp_path):
    code, _, _ = call("small", "--only", "row=gcn", "--seeds", "1")
    assert code == 0
    (record,) = load_records(tmp_path / "results")
    assert record.experiment.reweight is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("small", "--only", "dataset=coar"), "wine; found coar"),
        (("small", "--only", "colour=red"), "dataset=..."),
        (("small", "--seeds", "0"), ""),
        (("small", "--jobs", "0"), ""),
    ],
)
def test_a_wrong_argument_has_exit_code_2(call, words, said, tmp_path):
    code, _, error = call(*words)
    assert code == 2
    assert said in error
    assert not (tmp_path / "results").exists()


def test_an_unknown_table_is_told_which_there_are():
    result = CliRunner().invoke(drgcn.cli.verbs.app, ["reproduce", "tabel"])
    assert isinstance(result.exception, DrgcnError)
    assert "semi" in str(result.exception)


def test_data_that_is_not_at_hand_is_no_error_of_all(call):
    code, out, error = call("all", "--seeds", "1", "--no-controls", "--offline")
    assert code == 0
    assert "not run, 1 job on reddit" in error
    assert "https://github.com/GraphSAINT" in error
    assert "nothing to run for 1 cell of none: private" in error
    assert "small: 2 of 3 cells filled" in out


@pytest.mark.parametrize("name", ["large", "none"])
def test_a_table_of_which_nothing_can_be_run_is_exit_code_1(call, name, tmp_path):
    code, out, error = call(name, "--offline")
    assert (code, out) == (1, "")
    assert error.endswith(f"nothing can be run here for {name}\n")
    assert "trained" not in error
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_stays_if_nothing_can_be_run(call, tmp_path):
    (tmp_path / "results").mkdir()
    assert call("large", "--offline")[0] == 1
    assert (tmp_path / "results").is_dir()


def test_jobs_that_another_run_did_meanwhile_are_not_counted_as_own(call, monkeypatch, tmp_path):
    def half(status, out, run_jobs, **rest):
        reports, ending = suite_run(status, out, run_jobs, **rest)
        # As of a job that waited for its lock, and then found all seeds on record.
        return [reports[0], *(replace(one, trained=()) for one in reports[1:])], ending

    suite_run = backend.run_suite
    monkeypatch.setattr(backend, "run_suite", half)
    code, out, _ = call("small", "--seeds", "1")
    assert code == 0
    (kept,) = suites_in(tmp_path / "results")
    assert (kept.jobs, kept.jobs_of_others, kept.seeds_trained) == (1, 3, 1)
    assert "1 seed of 1 job trained in" in out
    assert "; 3 jobs done meanwhile by another run" in out


def test_a_failing_cell_is_listed_and_the_rest_recorded(call, tmp_path):
    code, out, error = call("odd")
    assert code == 1
    assert "odd: 1 of 2 cells filled" in out
    assert "1 of 2 jobs failed:" in error
    assert "Traceback" not in error
    (failure,) = failures_in(tmp_path / "results")
    assert "luck" in failure.error
    assert len(load_records(tmp_path / "results")) == 1


def test_a_damaged_record_is_set_aside_and_its_seeds_run_again(call, tmp_path):
    call("small")
    folder = tmp_path / "results"
    before = without_times(folder)
    path = next(folder.glob("*-dr-*.json"))
    path.write_bytes(path.read_bytes()[:-40])
    code, _, error = call("small")
    assert code == 0
    assert "damaged record set aside" in error
    assert "6 seeds on record, 2 to be trained in 1 job" in error
    assert (folder / "damaged" / path.name).exists()
    assert without_times(folder) == before


def test_ctrl_c_has_exit_code_130_also_before_the_first_job(call, monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("drgcn.studies.reproduce.status.plan_status", interrupted)
    code, _, error = call("small")
    assert code == 130
    assert error == "interrupted; run the same command again to go on from what was saved\n"


def test_what_was_done_before_ctrl_c_is_kept_account_of(call, monkeypatch, tmp_path):
    reports = []

    def until_the_second(status, out, run_jobs, **rest):
        def some(jobs, out, **options):
            yield from run_jobs(jobs[:1], out, **options)
            raise KeyboardInterrupt

        reports.extend(found := suite_run(status, out, some, **rest))
        return found

    suite_run = backend.run_suite
    monkeypatch.setattr(backend, "run_suite", until_the_second)
    code, _, _ = call("small")
    assert code == 130
    (kept,) = suites_in(tmp_path / "results")
    assert (kept.ending, kept.jobs, kept.seeds_trained) == ("interrupted", 1, 2)


def test_a_full_disk_is_one_clear_line(call, monkeypatch, tmp_path):
    def full(status, out, run_jobs, **_):
        return [JobReport(status.todo[0].job, error="full", disk_full=True)], "disk full"

    monkeypatch.setattr(backend, "run_suite", full)
    code, _, error = call("small")
    assert code == 1
    assert error.splitlines()[-1].startswith("error: there is no room left to write in results")
    assert list((tmp_path / "results").iterdir()) == []


def test_a_suite_is_plain_json(call, tmp_path):
    call("small", "--seeds", "1", "--only", "row=gcn")
    (path,) = (tmp_path / "results" / "suites").glob("*.json")
    assert json.loads(path.read_text())["only"] == {"row": ["gcn"]}
