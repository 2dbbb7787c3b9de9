"""Whether a report can be written where it is wanted, asked before any work is spent on it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from drgcn.errors import InputError


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
