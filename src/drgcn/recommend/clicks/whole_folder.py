"""Folders that are there as a whole or not at all."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

from drgcn.errors import InputError


@contextmanager
def whole_folder(folder: str | PathLike[str]) -> Iterator[Path]:
    """A place to write to that becomes ``folder`` when all went well.

    It lies beside the folder under another name. What a killed process left of an earlier try at
    the same folder is removed.

    Raises:
        InputError: If the folder exists.
    """
    folder = Path(folder)
    if folder.exists() or folder.is_symlink():
        raise InputError(f"Expected a folder that does not exist yet; {folder} is there already.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{folder.name}.partial-"
    for left in folder.parent.glob(f"{glob.escape(prefix)}*"):
        _remove_if_orphaned(left)
    partial = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    lock = os.open(partial, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the system lets go of it when the process dies
        yield partial
        partial.chmod(0o777 & ~_umask())  # mkdtemp lets nobody else in
        os.rename(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def _remove_if_orphaned(partial: Path) -> None:
    with suppress(OSError):
        lock = os.open(partial, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(partial, ignore_errors=True)
        finally:
            os.close(lock)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
