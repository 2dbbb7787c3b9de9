"""Processes and threads of this machine: cores they may use, work side by side, Ctrl-C, and the
death of their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import copy_context
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_PR_SET_PDEATHSIG = 1
# Opened here: between fork and exec, opening a library might wait for a lock for ever.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def available_cores() -> int:
    """Return how many CPU cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # systems that know no affinity
        return os.cpu_count() or 1


def side_by_side(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    threads: int,
    stop: threading.Event | None = None,
) -> list[Result]:
    """Return what ``work`` returns for each item, with several of them under way.

    Each is done on one thread: threads that share every small operation would wait for each other
    most of the time, and on a machine that others use too nearly all of it.

    Args:
        work: The work on one item.
        items: The items.
        threads: Number of items under way.
        stop: Set when one of them has failed or the user interrupts, so that the others may end.
    """
    with one_thread_each():
        if threads == 1:
            return [work(item) for item in items]
        with ThreadPoolExecutor(threads) as pool:
            # What the context of the caller holds, such as NumPy's error state, holds there too.
            under_way = [pool.submit(copy_context().run, work, item) for item in items]
            try:
                for done in as_completed(under_way):
                    done.result()
            except BaseException:
                if stop is not None:
                    stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return [done.result() for done in under_way]


class _Threads:
    """Blocks of one thread that are open in this process, and torch's threads before the first:
    blocks of several threads do not end in the order in which they began."""

    def __init__(self) -> None:
        self.lock, self.blocks, self.before = threading.Lock(), 0, 1


_THREADS = _Threads()


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Have torch take one thread for an operation, here and in threads that begin in the block."""
    import torch

    with _THREADS.lock:
        if not _THREADS.blocks:
            _THREADS.before = torch.get_num_threads()
        _THREADS.blocks += 1
    torch.set_num_threads(1)
    try:
        yield
    finally:
        with _THREADS.lock:
            _THREADS.blocks -= 1
            torch.set_num_threads(1 if _THREADS.blocks else _THREADS.before)


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
