"""Processes of this machine: cores they may use, Ctrl-C, and the death of their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PR_SET_PDEATHSIG = 1
# Opened here: between fork and exec, opening a library might wait for a lock for ever.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def available_cores() -> int:
    """Return how many CPU cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # systems that know no affinity
        return os.cpu_count() or 1


def die_with_parent(how: signal.Signals = signal.SIGTERM) -> None:
    """Have the system send this process a signal when its parent is gone, killed or not.

    Ranks that go on after their launcher was killed would write into the folder of a run that
    somebody may have started again. Linux alone can do this; elsewhere nothing happens.

    Args:
        how: The signal.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(how), 0, 0, 0)


@contextmanager
def children_ignore_sigint() -> Iterator[None]:
    """Ignore Ctrl-C in processes that are started in the block, from their first moment.

    The terminal sends it to all processes, and the parent decides what becomes of the others. A
    process inherits what its parent ignores; left to itself, it would print a traceback when
    interrupted while it is still importing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change this
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
