import io

import pytest
from rich.console import Console

from drgcn.studies.reproduce.jobs import Job, JobReport
from drgcn.studies.reproduce.progress import ProgressView
from drgcn.studies.reproduce.status import PlannedJob

from .small_plan import experiment


def planned(*costs):
    jobs = [Job(experiment(epochs=n + 1), None, (0,)) for n in range(len(costs))]
    return [PlannedJob(job, "a", (0,), cost) for job, cost in zip(jobs, costs, strict=True)]


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
        view.ended(JobReport(jobs[2].job, trained=(0,), seconds=6.0, notes=("mind this",)))
        assert view.words == "2 of 3 jobs done, 0 running, 1 failed; about 2.0 s left"
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
    assert lines[-1] == "1 of 2 jobs done, 0 running"  # it trained nothing: no time to go by
    quiet = io.StringIO()
    with ProgressView(jobs, Console(file=quiet), every=60) as view:
        view.moved(jobs[0].job, 0.5)
    assert quiet.getvalue() == ""
