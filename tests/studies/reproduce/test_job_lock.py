import multiprocessing
import os
import signal
import time

import pytest

from drgcn._io import LockedError, lock

_CONTEXT = multiprocessing.get_context("forkserver")


def hold(path, ready):
    with lock(path):
        ready.set()
        time.sleep(60)


def count(path, ledger, rounds):
    for _ in range(rounds):
        with lock(path):
            number = int(ledger.read_text())
            time.sleep(0.001)
            ledger.write_text(str(number + 1))


@pytest.fixture
def holder(tmp_path):
    ready = _CONTEXT.Event()
    process = _CONTEXT.Process(target=hold, args=(tmp_path / "locks" / "a", ready))
    process.start()
    assert ready.wait(60)
    yield process
    process.kill()
    process.join()


def test_another_process_finds_the_job_busy(holder, tmp_path):
    with pytest.raises(LockedError), lock(tmp_path / "locks" / "a", patience=0.2):
        pass
    with lock(tmp_path / "locks" / "b", patience=0):
        pass


def test_a_killed_process_holds_nothing(holder, tmp_path):
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with lock(tmp_path / "locks" / "a", patience=5):
        pass
    assert list((tmp_path / "locks").iterdir()) == []


def test_an_error_inside_gives_the_lock_back(tmp_path):
    with pytest.raises(KeyError), lock(tmp_path / "a"):
        raise KeyError
    with lock(tmp_path / "a", patience=0):
        pass


def test_only_one_at_a_time_though_files_come_and_go(tmp_path):
    """Each round makes and removes the file, which is where a careless lock lets two in."""
    ledger = tmp_path / "ledger"
    ledger.write_text("0")
    team = [
        _CONTEXT.Process(target=count, args=(tmp_path / "locks" / "a", ledger, 25))
        for _ in range(4)
    ]
    for process in team:
        process.start()
    for process in team:
        process.join(60)
    assert [process.exitcode for process in team] == [0] * 4
    assert ledger.read_text() == "100"
