"""A run that is killed at any instant, again and again, comes to the same records."""

import functools
import multiprocessing
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
from drgcn.studies.reproduce import backend as job_module
from drgcn.studies.reproduce.backend import attempt, run_job
from drgcn.studies.reproduce.processes import JobQueue
from drgcn.studies.run import run

from .small_plan import small_jobs, without_times

_CONTEXT = multiprocessing.get_context("forkserver")
_PROGRAM = Path(__file__).with_name("small_plan.py")


def run_all(out):
    """The small plan job after job, with a checkpoint after every epoch."""
    torch.set_num_threads(1)
    job_module.run = functools.partial(run, checkpoint_every=0.0)
    for job in small_jobs():
        run_job(job, out)


def leftovers(out):
    """Files that only a killed process leaves behind."""
    places = (out.rglob("*.partial"), out.glob(".checkpoints/*"), out.glob(".locks/*"))
    return [path for found in places for path in found]


def test_twenty_kills_of_a_plan_change_nothing(tmp_path, uninterrupted):
    chance = random.Random(20)
    kills = folder = 0
    while kills < 20:
        out = tmp_path / str(folder)
        process = _CONTEXT.Process(target=run_all, args=(out,))
        process.start()
        process.join(chance.uniform(0.05, 0.6))
        if process.is_alive():
            process.kill()
            process.join()
            kills += 1
            continue
        assert process.exitcode == 0
        assert without_times(out) == uninterrupted
        folder += 1
    run_all(out)
    job_module.run = run
    assert without_times(out) == uninterrupted
    assert leftovers(out) == []


def start(out, workers=2, *epochs):
    command = [sys.executable, str(_PROGRAM), *map(str, (out, workers, *epochs))]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def kill_and_compare(out, kills, uninterrupted, chance):
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
    assert without_times(out) == uninterrupted
    assert leftovers(out) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_kills_of_the_process_runner_change_nothing(tmp_path, uninterrupted):
    chance = random.Random(200)
    for round_ in range(4):
        kill_and_compare(tmp_path / str(round_), 5, uninterrupted, chance)


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
    assert without_times(tmp_path).items() <= uninterrupted.items()


def compare_two_runners(both, out, uninterrupted):
    for process in both:
        process.start()
    for process in both:
        process.join(200)
    assert [process.exitcode for process in both] == [0, 0]
    assert without_times(out) == uninterrupted
    assert len(list(out.glob("*.json"))) == len(small_jobs())
    assert leftovers(out) == []


def run_queue(out):
    """The small plan as the process runner takes it, but in this one process."""
    torch.set_num_threads(1)
    queue = JobQueue(small_jobs())
    while turn := queue.next([]):
        try:
            assert attempt(turn.job, out, patience=turn.patience).error is None
        except LockedError:
            queue.put_back(turn)


def test_two_runners_on_one_folder_share_the_work(tmp_path, uninterrupted):
    both = [_CONTEXT.Process(target=run_queue, args=(tmp_path,)) for _ in range(2)]
    compare_two_runners(both, tmp_path, uninterrupted)


def run_program(out):
    process = start(out)
    process.communicate()
    sys.exit(process.returncode)


@pytest.mark.slow
def test_two_process_runners_on_one_folder_share_the_work(tmp_path, uninterrupted):
    both = [_CONTEXT.Process(target=run_program, args=(tmp_path,)) for _ in range(2)]
    compare_two_runners(both, tmp_path, uninterrupted)
