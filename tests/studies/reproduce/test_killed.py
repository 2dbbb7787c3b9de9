"""A run that is killed at any instant, again and again, comes to the same records."""

import functools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from drgcn._io import LockedError
from drgcn.studies.records import load_records
from drgcn.studies.reproduce import backend
from drgcn.studies.reproduce.backend import attempt, run_job, run_suite
from drgcn.studies.reproduce.processes import JobQueue
from drgcn.studies.reproduce.progress import ProgressView
from drgcn.studies.reproduce.status import plan_status
from drgcn.studies.run import run

from ...children import CHILDREN
from .small_plan import small_jobs, without_times

_PROGRAM = Path(__file__).with_name("small_plan.py")


def run_all(out, epochs):
    """The small plan job after job, with a checkpoint after every epoch."""
    torch.set_num_threads(1)
    backend.run = functools.partial(run, checkpoint_every=0.0)
    for job in small_jobs(epochs=epochs):
        run_job(job, out)


def leftovers(out):
    """Files that only a killed process leaves behind."""
    places = (out.rglob("*.partial"), out.glob(".checkpoints/*"), out.glob(".locks/*"))
    return [path for found in places for path in found]


def finish_and_compare(out, expected, epochs):
    run_all(out, epochs)
    assert without_times(out) == expected
    assert leftovers(out) == []


@pytest.fixture
def own_run(monkeypatch):
    """Puts back what ``run_all`` sets."""
    monkeypatch.setattr(backend, "run", run)


def test_a_plan_killed_in_the_middle_of_its_jobs_goes_on(tmp_path, uninterrupted, own_run):
    for done in (0, 6):  # of eight
        process = CHILDREN.Process(target=run_all, args=(tmp_path, 4))
        process.start()
        while len(list(tmp_path.glob("*.json"))) < done or not any(
            tmp_path.glob(".checkpoints/*")
        ):
            assert process.is_alive()
            time.sleep(0.001)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    finish_and_compare(tmp_path, uninterrupted(4), 4)


def test_what_a_kill_left_after_the_last_record_goes_though_nothing_is_to_do(
    tmp_path, monkeypatch
):
    (job, other, *_) = small_jobs(epochs=2)
    with monkeypatch.context() as killed:
        killed.setattr("drgcn.studies.run.clear_checkpoint", lambda *_: None)
        run_job(job, tmp_path)
        killed.setattr("drgcn.studies.run._Records.add", lambda *_: sys.exit())
        with pytest.raises(SystemExit):
            run_job(other, tmp_path)
    kept = list(tmp_path.glob(f".checkpoints/{unrecorded(tmp_path)}*"))
    (record,) = tmp_path.glob("*.json")
    os.link(record, tmp_path / f".{record.name}.0123abcd.partial")
    (tmp_path / ".locks" / "left").write_text("")
    assert len(kept) < len(leftovers(tmp_path)) - 2
    status = plan_status([job], load_records(tmp_path))
    nothing = lambda *_, **__: (report for report in ())  # noqa: E731
    assert run_suite(status, tmp_path, nothing, view=ProgressView([])) == ([], "finished")
    assert leftovers(tmp_path) == kept


def unrecorded(out):
    """Identity of the one job that has checkpoints and no record."""
    recorded = {record.identity for record in load_records(out)}
    (own,) = {path.name.partition(".")[0] for path in out.glob(".checkpoints/*")} - recorded
    return own


@pytest.mark.slow
def test_twenty_kills_of_a_plan_change_nothing(tmp_path, uninterrupted, own_run):
    chance = random.Random(20)
    kills = folder = 0
    while kills < 20:
        out = tmp_path / str(folder)
        process = CHILDREN.Process(target=run_all, args=(out, 12))
        process.start()
        process.join(chance.uniform(0.05, 0.6))
        if process.is_alive():
            process.kill()
            process.join()
            kills += 1
            continue
        assert process.exitcode == 0
        assert without_times(out) == uninterrupted()
        folder += 1
    finish_and_compare(out, uninterrupted(), 12)


def start(out, workers=2, *epochs):
    command = [sys.executable, str(_PROGRAM), *map(str, (out, workers, *epochs))]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def kill_and_compare(out, kills, expected, chance):
    """Kills the runner, or it and its workers, at random instants once work has begun."""
    for _ in range(kills):
        process = start(out)
        process.stdout.readline()
        time.sleep(chance.uniform(0.0, 3.0))
        if chance.random() < 0.5:
            os.kill(process.pid, signal.SIGKILL)
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    process = start(out)
    _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert without_times(out) == expected
    assert leftovers(out) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_kills_of_the_process_runner_change_nothing(tmp_path, uninterrupted):
    chance = random.Random(200)
    for round_ in range(4):
        kill_and_compare(tmp_path / str(round_), 5, uninterrupted(), chance)


@pytest.mark.slow
def test_workers_end_with_a_runner_that_is_killed(tmp_path):
    process = start(tmp_path, 1, 1_000_000)  # for hours, if it did not end
    for _ in range(2):
        process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    # Standard error ends when the last process that holds it does.
    process.communicate(timeout=30)


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_nothing_half_written(tmp_path, uninterrupted):
    process = start(tmp_path, 1)
    for _ in range(6):  # by then something has been trained
        process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert list(tmp_path.rglob("*.partial")) == []
    assert list(tmp_path.glob(".locks/*")) == []
    assert without_times(tmp_path).items() <= uninterrupted().items()


def compare_two_runners(both, out, expected):
    for process in both:
        process.start()
    for process in both:
        process.join(200)
    assert [process.exitcode for process in both] == [0, 0]
    assert without_times(out) == expected
    assert len(list(out.glob("*.json"))) == len(small_jobs())
    assert leftovers(out) == []


def run_queue(out, epochs):
    """The small plan as the process runner takes it, but in this one process."""
    torch.set_num_threads(1)
    queue = JobQueue(small_jobs(epochs=epochs))
    while queued := queue.next([]):
        try:
            assert attempt(queued.job, out, patience=queued.patience).error is None
        except LockedError:
            queue.put_back(queued)


def test_two_runners_on_one_folder_share_the_work(tmp_path, uninterrupted):
    both = [CHILDREN.Process(target=run_queue, args=(tmp_path, 4)) for _ in range(2)]
    compare_two_runners(both, tmp_path, uninterrupted(4))


def run_program(out):
    process = start(out)
    process.communicate()
    sys.exit(process.returncode)


@pytest.mark.slow
def test_two_process_runners_on_one_folder_share_the_work(tmp_path, uninterrupted):
    both = [CHILDREN.Process(target=run_program, args=(tmp_path,)) for _ in range(2)]
    compare_two_runners(both, tmp_path, uninterrupted())
