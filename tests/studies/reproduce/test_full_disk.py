"""No room left: one clear line, and nothing half-written."""

import errno
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drgcn.studies.reproduce.backend import attempt, run_suite
from drgcn.studies.reproduce.jobs import Job, JobReport, failures_in
from drgcn.studies.reproduce.progress import ProgressView
from drgcn.studies.reproduce.status import plan_status

from .small_plan import experiment

_PROGRAM = Path(__file__).with_name("small_plan.py")


def files(out):
    return [path for path in out.rglob("*") if path.is_file()]


def test_a_record_that_does_not_fit_leaves_nothing(tmp_path, monkeypatch):
    fsync = os.fsync

    def full(handle):
        if "seeds" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    job = Job(experiment(epochs=2), None, (0,))
    report = attempt(job, tmp_path)
    assert report.disk_full
    assert report.error == "OSError: [Errno 28] No space left on device"
    # The checkpoint is whole, and spares the training when there is room again.
    (left,) = files(tmp_path)
    assert left.parent.name == ".checkpoints"
    assert left.suffix != ".partial"
    monkeypatch.undo()
    assert attempt(job, tmp_path).trained == (0,)
    assert len(files(tmp_path)) == 1


def test_a_full_disk_stops_the_suite(tmp_path):
    jobs = [Job(experiment(epochs=n), None, (0,)) for n in (3, 2, 1)]
    closed = []

    def backend(jobs, out, **_):
        try:
            yield JobReport(jobs[0], trained=(0,))
            yield JobReport(jobs[1], error="full", disk_full=True)
            yield JobReport(jobs[2], trained=(0,))
        finally:
            closed.append(True)

    status = plan_status(jobs, [])
    reports, ending = run_suite(status, tmp_path, backend, view=ProgressView(status.todo))
    assert (len(reports), ending) == (2, "disk full")
    assert closed == [True]
    assert failures_in(tmp_path) == []


def test_a_failure_that_cannot_be_written_stops_the_suite_too(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def backend(jobs, out, **_):
        for job in jobs:
            yield JobReport(job, error="InputError: odd")

    monkeypatch.setattr(os, "fsync", full)
    status = plan_status([Job(experiment(epochs=n), None, (0,)) for n in (2, 1)], [])
    reports, ending = run_suite(status, tmp_path, backend, view=ProgressView(status.todo))
    assert (len(reports), ending) == (1, "disk full")
    assert files(tmp_path) == []


@pytest.mark.slow
def test_workers_that_may_write_no_more_stop_the_run(tmp_path):
    """A limit on the size of files is a full disk that needs no rights to make."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))

    done = subprocess.run(
        [sys.executable, "-B", str(_PROGRAM), str(tmp_path), "1"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
        timeout=200,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert files(tmp_path) == []


@pytest.mark.slow
def test_a_disk_that_fills_up_and_is_cleared_again(tmp_path):
    """A file system of our own, half full from the start."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare")
    script = (
        'mount -t tmpfs -o size=200k none "$1" && head -c 120k /dev/zero > "$1/ballast"\n'
        '"$2" -B "$3" "$1/out" 2; echo "first $?"; find "$1/out" -name "*.partial"\n'
        'rm "$1/ballast"; mount -o remount,size=50m "$1"\n'
        '"$2" -B "$3" "$1/out" 2; echo "second $?"; ls "$1/out"\n'
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), sys.executable, str(_PROGRAM)],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"needs a file system of its own: {done.stderr[:80]}")
    said = [line for line in done.stdout.splitlines() if line != "moved"]
    assert said[:2] == ["first 1", "second 0"], done.stderr
    assert len([line for line in said if line.endswith(".json")]) == 8
