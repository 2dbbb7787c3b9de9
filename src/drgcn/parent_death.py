"""Processes that do not outlive the one that started them."""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
# Opened here: between fork and exec, opening a library might wait for a lock for ever.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(how: signal.Signals = signal.SIGTERM) -> None:
    """Has the system send this process a signal when its parent is gone, killed or not.

    Ranks that go on after their launcher was killed would write into the folder of a run that
    somebody may have started again. Linux alone can do this; elsewhere nothing happens.

    Args:
        how: The signal.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(how), 0, 0, 0)
