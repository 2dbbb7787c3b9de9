"""Places that a verb is to write to, looked at before any work is spent."""

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


def use_folder(path: Path) -> Path:
    """A folder that can be written to, made if need be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        _write_something(path)
    except OSError as error:
        raise unwritable("a folder that can be written to", path, error) from None
    return path


def expect_new_folder(path: Path) -> None:
    """Refuses what is there already, and what could not be made."""
    _expect_place(path, "a new folder")
    if path.exists() or path.is_symlink():
        raise InputError(
            f"Expected --out to be a new folder; {path} is there already. Choose another name."
        )


def expect_file_place(path: Path) -> None:
    """Refuses a place where no file can be written. One that is there may be replaced."""
    _expect_place(path, "a file that can be written")
    if path.is_dir():
        raise unwritable("a file", path, IsADirectoryError(errno.EISDIR, ""))


def unwritable(wanted: str, path: Path, error: OSError) -> InputError:
    """What is said of a place that the system does not let us write to."""
    # Some systems have reasons of their own.
    reason = _REASONS.get(error.errno or 0) or f"of which the system says: {error.strerror}"
    advice = "Free some room, or choose another" if error.errno in DISK_FULL else "Choose another"
    return InputError(f"Expected --out to be {wanted}; found {path}, {reason}. {advice}.")


def _expect_place(path: Path, wanted: str) -> None:
    try:
        # Nothing is made yet: the work may still be refused for another reason.
        nearest = next(part for part in path.absolute().parents if part.exists())
        if not nearest.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "")
        _write_something(nearest)
    except OSError as error:
        raise unwritable(wanted, path, error) from None


def _write_something(folder: Path) -> None:
    """Permissions do not tell all: a disk may be full, or mounted for reading alone."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"x")


def expect_file(option: str, path: Path) -> None:
    """Refuses a path at which no file can be written; makes its folder."""
    if path.is_dir():
        raise InputError(
            f"Expected {option} to be the path of a file; {path} is a folder: add the name of a "
            f"file to it."
        )
    expect_folder(option, path.parent, path)
    if path.exists():
        try:
            path.open("ab").close()
        except OSError as error:
            raise _refusal(option, path, error) from None


def expect_folder(option: str, folder: Path, path: Path | None = None) -> None:
    """Refuses a folder in which no file can be written; makes it.

    Args:
        option: The option that asked for it.
        folder: The folder.
        path: What was asked for, if that is a file in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Permissions do not tell all: a disk may be mounted for reading alone.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        raise _refusal(option, path or folder, error) from None


def _refusal(option: str, path: Path, error: OSError) -> InputError:
    in_the_way = isinstance(error, FileExistsError | NotADirectoryError)
    reason = "a part of its path is a file" if in_the_way else error.strerror or str(error)
    return InputError(f"{option} {path} cannot be written ({reason}): choose another place.")
