"""The process runner: the same records for any number of workers, and when one dies."""

import multiprocessing
from dataclasses import replace

import pytest

from drgcn._processes import available_cores
from drgcn.studies.records import load_records
from drgcn.studies.reproduce.backend import attempt, run_suite
from drgcn.studies.reproduce.jobs import Job, clear_failure, failure_path, failures_in
from drgcn.studies.reproduce.processes import JobQueue, ProcessRunner
from drgcn.studies.reproduce.progress import ProgressView
from drgcn.studies.reproduce.status import plan_status

from ... import children  # noqa: F401 - what is forked has imported torch already
from .small_plan import experiment, small_jobs, without_times


def runner(workers=1, threads=1):
    return ProcessRunner(workers, threads, start="forkserver")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: runner(1), marks=pytest.mark.slow),
        lambda: runner(2),
        pytest.param(lambda: ProcessRunner(2, threads=1), marks=pytest.mark.slow),
    ],
)
def test_records_are_the_same_whatever_the_number_of_workers(make, tmp_path, uninterrupted):
    jobs = small_jobs(epochs=4)
    reports = list(make()(jobs, tmp_path))
    assert sorted(report.job.key for report in reports) == sorted(job.key for job in jobs)
    assert all(report.trained == (0, 1, 2, 3, 4) for report in reports)
    assert without_times(tmp_path) == uninterrupted(4)
    assert not multiprocessing.active_children()


def test_threads_are_shared_out():
    assert ProcessRunner(1).threads_each == available_cores()
    assert ProcessRunner(1000).threads_each == 1
    assert ProcessRunner(2, threads=3).threads_each == 3


def test_an_interruption_told_as_bad_input_is_no_failure_of_a_job(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        try:
            raise KeyboardInterrupt
        finally:
            raise RecursionError

    monkeypatch.setattr("drgcn.studies.reproduce.backend.run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        attempt(Job(experiment(epochs=2), None, (0,)), tmp_path)


def test_a_failing_job_is_recorded_and_the_rest_goes_on(tmp_path):
    good = Job(experiment(epochs=2), None, (0,))
    bad = Job(experiment(epochs=2, options={"luck": 1}), None, (0, 1))
    status = plan_status([bad, good], [])
    with ProgressView(status.todo) as view:
        reports, ending = run_suite(status, tmp_path, runner(threads=3), view=view)
    assert ending == "finished"
    assert {r.job.key: r.error is None for r in reports} == {bad.key: False, good.key: True}
    (record,) = load_records(tmp_path)
    assert record.environment["threads"] == 3
    (failure,) = failures_in(tmp_path)
    assert "luck" in failure.error
    assert "Traceback" in failure.traceback
    assert "run.py" in failure.traceback
    assert (failure.experiment, failure.seeds) == (bad.experiment.to_dict(), [0, 1])
    assert failure.attempts == 1
    clear_failure(bad, tmp_path)
    assert not (tmp_path / "failures").exists()


def test_a_worker_that_dies_is_replaced_and_its_job_tried_once_more(tmp_path):
    once, twice, never = (Job(experiment(epochs=e), None, (0,)) for e in (3, 4, 5))
    deaths = {once.key: 1, twice.key: 2, never.key: 0}

    def kill(job, share):
        if share == 0.0 and deaths[job.key] > 0:
            deaths[job.key] -= 1
            for process in multiprocessing.active_children():
                process.kill()

    jobs = [once, twice, never]
    reports = {r.job.key: r for r in runner()(jobs, tmp_path, watch=kill)}
    assert set(deaths.values()) == {0}
    assert list(reports) == [never.key, once.key, twice.key]
    assert [(r.attempts, r.trained) for r in reports.values()] == [(1, (0,)), (2, (0,)), (2, ())]
    assert "signal 9" in reports[twice.key].error
    assert len(load_records(tmp_path)) == 2


def test_an_interruption_ends_the_workers(tmp_path):
    def interrupt(job, share):
        raise KeyboardInterrupt

    status = plan_status([Job(experiment(epochs=2000), None, (0,))], [])
    view = ProgressView(status.todo)
    view.moved = interrupt
    assert run_suite(status, tmp_path, runner(), view=view) == ([], "interrupted")
    assert not multiprocessing.active_children()
    assert not list(tmp_path.rglob("*.partial"))


def in_this_process(jobs, out, **_):
    for job in jobs:
        yield attempt(job, out)


def test_a_success_or_a_complete_record_clears_an_earlier_failure(tmp_path):
    job = Job(experiment(epochs=2), None, (0,))
    for seeds in ((0,), (0, 1), (0, 1)):
        wanted = replace(job, seeds=seeds)
        failure_path(wanted, tmp_path).parent.mkdir(exist_ok=True)
        failure_path(wanted, tmp_path).write_text("{}")
        status = plan_status([wanted], load_records(tmp_path))
        run_suite(status, tmp_path, in_this_process, view=ProgressView(status.todo))
        assert not failure_path(wanted, tmp_path).exists()


# The queue


def jobs(number):
    return [Job(experiment(epochs=n + 1), None, (0,)) for n in range(number)]


def test_first_those_given_then_the_busy_then_the_unlucky_alone():
    a, b, c = jobs(3)
    queue = JobQueue([a, b, c])
    first = queue.next([])
    second = queue.next([first])
    assert (first.job, second.job) == (a, b)
    assert first.patience == 0
    queue.try_again(first)
    queue.put_back(second)
    third = queue.next([])
    assert third.job == c
    waiting = queue.next([third])
    assert waiting.job == b
    assert waiting.patience > 0
    assert queue.next([third]) is None
    assert len(queue) == 1
    last = queue.next([])
    assert (last.job, last.attempt, last.alone) == (a, 2, True)
    assert not queue
    queue.put_back(waiting)
    assert queue.next([last]) is None


def test_an_unlucky_job_that_is_busy_stays_alone():
    (a,) = jobs(1)
    queue = JobQueue([a])
    queue.try_again(queue.next([]))
    queue.put_back(queue.next([]))
    queued = queue.next([])
    assert (queued.attempt, queued.alone) == (2, True)
