"""One search at a time in a folder."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drgcn.errors import InputError


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Holds a folder against other processes; the system lets go of it when this one ends, however
    it ends."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"Expected {folder} to be free; another search is running in it. Wait for it, or "
                f"choose another --out."
            ) from None
        yield
