"""One process at a time per job, also when two runners share a folder."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drgcn.errors import DrgcnError

_LOOK_EVERY = 0.1  # seconds


class JobBusyError(DrgcnError):
    """Another process has the job in hand."""


@contextmanager
def job_lock(path: Path, patience: float | None = None) -> Iterator[None]:
    """Holds a lock for as long as the block runs.

    The lock is the kernel's (``flock``), and not the file's being there: it goes with the
    process that holds it, also on ``kill -9``. A file left behind by a kill does no harm.

    Args:
        path: The file of the lock, made if need be and removed at the end.
        patience: How many seconds to wait for another process; for ever if not given.

    Raises:
        JobBusyError: If another process still holds the lock after that.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    latest = None if patience is None else time.monotonic() + patience
    while (handle := _taken(path)) is None:
        if latest is not None and time.monotonic() >= latest:
            raise JobBusyError(f"{path.name} is being run by another process")
        time.sleep(_LOOK_EVERY)
    try:
        yield
    finally:
        # Removed while it is still held, so that nobody else's file is removed.
        path.unlink(missing_ok=True)
        os.close(handle)


def _taken(path: Path) -> int | None:
    """A locked file handle, or nothing if another process has the lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between opening and locking, its holder may have removed the file: then the lock is
        # on a file that nobody else will ever find.
        found = os.stat(path)
        if os.path.samestat(found, os.fstat(handle)):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None
