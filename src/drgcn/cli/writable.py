"""Checks of output paths, made before any work is spent."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

from drgcn._io import DISK_FULL
from drgcn.errors import InputError

_REASONS = {
    errno.EACCES: "which you have no right to write to",
    errno.EPERM: "which you have no right to write to",
    errno.EROFS: "which is on a read-only file system",
    errno.ENOTDIR: "which is a file, or lies below one",
    errno.EEXIST: "which is a file, or lies below one",
    errno.ENOENT: "where the system lets nothing be made",
    errno.EISDIR: "which is a folder",
    errno.ENAMETOOLONG: "which is too long a name",
    **dict.fromkeys(DISK_FULL, "which is on a disk without any room left"),
}


def use_folder(path: Path, option: str = "--out") -> Path:
    """Return a folder that can be written to, made if need be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        _expect_writable(path)
    except OSError as error:
        raise _unwritable(option, "a folder that can be written to", path, error) from None
    return path


def expect_new_folder(path: Path, option: str = "--out") -> None:
    """Refuse a path that exists, or at which no folder can be made; makes nothing."""
    _expect_writable_parent(path, option, "a new folder")
    if path.exists() or path.is_symlink():
        raise InputError(
            f"Expected {option} to be a new folder; {path} is there already. Choose another name."
        )


def expect_file(path: Path, option: str = "--out") -> None:
    """Refuse a path at which no file can be written; a file there may be replaced."""
    _expect_writable_parent(path, option, "a file that can be written")
    if path.is_dir():
        raise _unwritable(option, "a file", path, IsADirectoryError(errno.EISDIR, ""))


def _expect_writable_parent(path: Path, option: str, wanted: str) -> None:
    try:
        # Nothing is made yet: the work may still be refused for another reason.
        nearest = next(part for part in path.absolute().parents if part.exists())
        if not nearest.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "")
        _expect_writable(nearest)
    except OSError as error:
        raise _unwritable(option, wanted, path, error) from None


def _expect_writable(folder: Path) -> None:
    # Permissions do not tell all: a disk may be full, or mounted for reading alone.
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"x")


def _unwritable(option: str, wanted: str, path: Path, error: OSError) -> InputError:
    # Some systems have reasons of their own.
    reason = _REASONS.get(error.errno or 0) or f"of which the system says: {error.strerror}"
    advice = "Free some room, or choose another" if error.errno in DISK_FULL else "Choose another"
    return InputError(f"Expected {option} to be {wanted}; found {path}, {reason}. {advice}.")
