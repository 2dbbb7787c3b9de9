"""Files and folders written whole or not at all, locks, and errors of the system."""

import errno
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from drgcn._io import (
    LockedError,
    disk_is_full,
    explain_system_error,
    lock,
    replacing,
    sweep,
    whole_folder,
    write_once,
    write_whole,
)
from drgcn.errors import InputError

_CONTEXT = multiprocessing.get_context("spawn")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# Files and folders


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "a" / "file"
    assert write_whole(path, "first") == path
    write_whole(path, b"second")
    assert path.read_text() == "second"
    assert names(path.parent) == ["file"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_goes_wrong_leaves_a_file_as_it_was(tmp_path, error):
    path = write_whole(tmp_path / "file", "old")

    def write_half():
        with replacing(path) as partial:
            partial.write_text("half")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("write", [write_whole, write_once])
@pytest.mark.parametrize(
    "steps",
    [["drgcn._io._write"], ["os.fsync"], ["os.link", "pathlib.Path.replace"]],
)
def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch, write, steps):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for step in steps:
        monkeypatch.setattr(step, full)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "file", "text")
    assert names(tmp_path) == []


def test_a_file_is_written_once(tmp_path):
    path = write_once(tmp_path / "a" / "file", "first")
    with pytest.raises(FileExistsError):
        write_once(path, "second")
    assert path.read_text() == "first"
    assert names(path.parent) == ["file"]


def write_half(path, ready):
    with replacing(path) as partial:
        partial.write_text("half")
        ready.set()
        time.sleep(60)


def test_what_a_killed_writer_left_goes_with_the_next_one_and_what_is_being_written_stays(
    tmp_path,
):
    path, ready = tmp_path / "file", _CONTEXT.Event()
    process = _CONTEXT.Process(target=write_half, args=(path, ready))
    process.start()
    assert ready.wait(60)
    (left,) = tmp_path.iterdir()
    write_whole(path, "whole")
    assert sorted(tmp_path.iterdir()) == sorted([left, path])
    process.kill()
    process.join()
    (tmp_path / ".file.notes.partial").write_text("mine")
    write_whole(path, "again")
    assert names(tmp_path) == [".file.notes.partial", "file"]


def test_a_second_name_that_a_kill_left_goes_though_nothing_is_written(tmp_path):
    path = write_once(tmp_path / "file", "whole")
    left = tmp_path / ".file.0123abcd.partial"  # of a process killed between link and unlink
    os.link(path, left)
    (tmp_path / ".file.notes.partial").write_text("mine")
    with replacing(tmp_path / "other"):
        sweep(tmp_path, tmp_path / "nowhere")
        assert len(list(tmp_path.glob(".other.*.partial"))) == 1  # it is being written
    assert names(tmp_path) == [".file.notes.partial", "file", "other"]


def test_a_folder_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    synced, sync = [], os.fsync

    def fsync(handle):
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")))
        assert not (tmp_path / "new").exists()
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with whole_folder(tmp_path / "new") as partial:
        (partial / "deep").mkdir()
        (partial / "deep" / "a").write_text("a")
        (partial / "b").write_text("b")
    assert sorted(synced) == ["a", "b"]


def test_a_link_is_replaced_and_not_followed(tmp_path):
    other = write_whole(tmp_path / "other", "mine")
    (tmp_path / "file").symlink_to(other)
    write_whole(tmp_path / "file", "page")
    assert (other.read_text(), (tmp_path / "file").read_text()) == ("mine", "page")


def test_a_folder_appears_when_it_is_filled(tmp_path):
    left = tmp_path / ".n[e]w.partial-abc"  # of a process that was killed
    left.mkdir()
    with whole_folder(tmp_path / "n[e]w") as partial:
        (partial / "a").write_text("a")
        assert not left.exists()
        assert not (tmp_path / "n[e]w").exists()
    assert names(tmp_path) == ["n[e]w"]
    assert (tmp_path / "n[e]w").stat().st_mode & 0o777 == partial_mode()
    with (
        pytest.raises(InputError, match="is there already"),
        whole_folder(tmp_path / "n[e]w"),
    ):
        pass


def partial_mode():
    mask = os.umask(0)
    os.umask(mask)
    return 0o777 & ~mask


def fill_and_fail(folder):
    with whole_folder(folder) as partial:
        (partial / "a").write_text("a")
        raise KeyboardInterrupt


def test_a_folder_that_could_not_be_filled_is_not_there(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fill_and_fail(tmp_path / "new")
    assert names(tmp_path) == []


def fill_twice(folder):
    with whole_folder(folder) as first:
        (first / "first").write_text("")
        with whole_folder(folder) as second:
            (second / "second").write_text("")
            assert (first / "first").exists()  # its process is alive: it is no leftover


def test_of_two_that_fill_a_folder_the_faster_one_wins(tmp_path):
    with pytest.raises(InputError, match=r"another process has made .*set meanwhile"):
        fill_twice(tmp_path / "set")
    assert names(tmp_path) == ["set"]
    assert names(tmp_path / "set") == ["second"]


# Locks


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


def test_a_lock_holds_off_other_processes_until_its_own_is_killed(holder, tmp_path):
    with pytest.raises(LockedError), lock(tmp_path / "locks" / "a", patience=0.2):
        pass
    with lock(tmp_path / "locks" / "b", patience=0):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with lock(tmp_path / "locks" / "a", patience=5):
        pass
    assert names(tmp_path / "locks") == []


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


# Errors of the system


def test_which_errors_mean_a_full_disk():
    assert disk_is_full(OSError(errno.ENOSPC, "full"))
    assert disk_is_full(RuntimeError("I/O error: No space left on device (os error 28)"))
    assert disk_is_full(OSError("16 requested and 0 written"))
    assert not disk_is_full(OSError(errno.EACCES, "no"))
    assert not disk_is_full(RuntimeError("os error"))


def test_errors_of_the_system_are_sentences():
    words = explain_system_error(PermissionError(errno.EACCES, "Permission denied", "/x/y"))
    assert words == (
        "Expected files and folders that can be read and written; found /x/y of which the system "
        "says: permission denied. Check the path and your rights to it."
    )
    assert explain_system_error(OSError(errno.ENOSPC, "full")).startswith("Expected room")
    assert explain_system_error(ValueError("a bug")) is None


def test_a_device_is_never_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(InputError, match="a device"):
            write_whole(path, "text")
        assert path.exists()
        assert not path.is_file()
    assert sorted(tmp_path.iterdir()) == [tmp_path / "pipe"]
