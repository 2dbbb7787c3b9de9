import io

import pytest
from rich.console import Console

from drgcn.studies.reproduce.job import Job
from drgcn.studies.reproduce.job_report import JobReport
from drgcn.studies.reproduce.planned_job import PlannedJob
from drgcn.studies.reproduce.progress_view import ProgressView
from drgcn.studies.reproduce.time_left import TimeLeft, duration_words

from .small_plan import experiment


def planned(*costs):
    jobs = [Job(experiment(epochs=n + 1), None, (0,)) for n in range(len(costs))]
    return [PlannedJob(job, "a", (0,), cost) for job, cost in zip(jobs, costs, strict=True)]


def test_time_left_goes_by_cost_and_not_by_number():
    left = TimeLeft({"a": 9.0, "b": 1.0})
    assert left.seconds(10.0) is None
    left.moved("a", 1.0)
    assert left.share == pytest.approx(0.9)
    assert left.seconds(90.0) == pytest.approx(10.0)
    left.moved("b", 0.5)
    assert left.seconds(95.0) == pytest.approx(5.0)
    left.moved("b", 1.0)
    assert left.seconds(100.0) == 0


def test_jobs_of_unknown_cost_count_like_any():
    left = TimeLeft({"a": 0.0, "b": 0.0})
    left.moved("a", 1.0)
    assert left.share == 0.5
    assert TimeLeft({}).share == 1.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(4.4, "4 s"), (100, "2 min"), (5399, "1 h 30 min"), (7260, "2 h 01 min")],
)
def test_times_are_said_as_people_say_them(seconds, words):
    assert duration_words(seconds) == words


@pytest.mark.parametrize("terminal", [True, False])
def test_failures_and_warnings_are_said_once(terminal):
    text = io.StringIO()
    jobs = planned(1.0, 2.0, 3.0)
    console = Console(file=text, force_terminal=terminal, width=100)
    with ProgressView(jobs, console, every=1000) as view:
        for each in jobs:
            view.moved(each.job, 0.0)
            view.moved(each.job, 0.4)
        view.moved(jobs[0].job, None)
        assert "2 running" in view.words
        view.ended(JobReport(jobs[1].job, error="InputError: [odd]", notes=("mind this",)))
        view.ended(JobReport(jobs[2].job, trained=(0,), notes=("mind this",)))
        assert view.words.startswith("2 of 3 jobs done, 0 running, 1 failed; about")
    assert text.getvalue().count("InputError: [odd]") == 1
    assert text.getvalue().count("warning: mind this") == 1


def test_lines_come_now_and_then_without_a_terminal():
    text = io.StringIO()
    jobs = planned(1.0, 1.0)
    with ProgressView(jobs, Console(file=text), every=0) as view:
        view.moved(jobs[0].job, 0.5)
        view.ended(JobReport(jobs[0].job))
    lines = text.getvalue().splitlines()
    assert lines[0].startswith("0 of 2 jobs done, 1 running")
    assert lines[-1].startswith("1 of 2 jobs done, 0 running")
    quiet = io.StringIO()
    with ProgressView(jobs, Console(file=quiet), every=60) as view:
        view.moved(jobs[0].job, 0.5)
    assert quiet.getvalue() == ""
