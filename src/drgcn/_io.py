"""Files and folders that are written whole or not at all, locks, and errors of the system."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import glob
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

from drgcn.errors import DrgcnError, InputError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CUT_SHORT = re.compile(r"\d+ requested and \d+ written")
# Torch tells of memory on CPU in words alone.
_ALLOCATION = re.compile(r"DefaultCPUAllocator|CUDA out of memory|std::bad_alloc")
_LOOK_EVERY = 0.1  # seconds


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a path to write to; its file takes the place of ``path`` when the block ends well.

    The file reaches the disk before it is renamed. Whatever goes wrong, ``path`` is what it was,
    and nothing is left beside it.

    Raises:
        InputError: If ``path`` is a device or the like, of which a file would take the place.
    """
    if _is_device(path):
        raise InputError(
            f"Expected the name of a file to write; found {path}, a device. Choose another name."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with _partial(path) as partial:
        yield partial
        _sync(partial)
        partial.replace(path)


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write a file whole or not at all, over what was there. Returns its path."""
    with replacing(path) as partial:
        _write(partial, content)
    return path


def write_once(path: Path, content: str | bytes) -> Path:
    """Write a file whole or not at all, and never over another. Returns its path.

    Raises:
        FileExistsError: If something is there already; it stays as it is.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _partial(path) as partial:
        _write(partial, content)
        _sync(partial)
        os.link(partial, path)  # unlike a rename, never replaces a file
    return path


def plain_file(path: Path) -> Path:
    """Return the path of a file to read, unless there is what may keep a reader for ever.

    Raises:
        OSError: If it is a device, a pipe or a socket.
    """
    if _is_device(path):
        raise OSError(errno.EINVAL, "it is a device, a pipe or a socket", str(path))
    return path


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with plain_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def whole_folder(folder: str | PathLike[str]) -> Iterator[Path]:
    """Yield a new folder to fill; it becomes ``folder`` when the block ends well.

    It lies beside ``folder`` under another name. What a killed process left of an earlier try at
    the same folder is removed.

    Raises:
        InputError: If the folder exists.
    """
    folder = Path(folder)
    if folder.exists() or folder.is_symlink():
        raise InputError(f"Expected a folder that does not exist yet; {folder} is there already.")
    with _partial_folder(folder) as partial:
        yield partial
        _sync_all(partial)
        try:
            os.rename(partial, folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise InputError(
                f"Expected a folder that does not exist yet; another process has made {folder} "
                f"meanwhile. Choose another name, or use that one."
            ) from None


@contextmanager
def replacing_folder(folder: str | PathLike[str]) -> Iterator[Path]:
    """Yield a new folder to fill; it takes the place of ``folder`` when the block ends well.

    The two change places in one step of the system, so there is always one of them, whole. Files
    of the old one that somebody has open stay readable.

    Raises:
        InputError: If there is no such folder.
    """
    folder = Path(folder).resolve()  # what a link points to is replaced, not the link
    if not folder.is_dir():
        raise InputError(f"Expected a folder at {folder}; there is none.")
    with _partial_folder(folder) as partial:
        yield partial
        _sync_all(partial)
        _exchange(partial, folder)


@contextmanager
def _partial_folder(folder: Path) -> Iterator[Path]:
    """Yield a locked folder beside another; what is left of it at the end is removed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{folder.name}.partial-"
    for left in folder.parent.glob(f"{glob.escape(prefix)}*"):
        _remove_if_orphaned(left)
    partial = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    with contextlib.ExitStack() as undo:
        undo.callback(remove_folder, partial)
        handle = os.open(partial, os.O_RDONLY)
        undo.callback(os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX)  # the system lets go of it when the process dies
        partial.chmod(0o777 & ~_umask())  # mkdtemp lets nobody else in
        yield partial


def _exchange(one: Path, other: Path) -> None:
    """Let two folders change places, at once where the system can."""
    swap = 2  # RENAME_EXCHANGE
    here = -100  # AT_FDCWD
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is not None:
        if renameat2(here, os.fsencode(one), here, os.fsencode(other), swap) == 0:
            return
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
            raise OSError(number, os.strerror(number), str(other))
    # Some file systems cannot: for a moment there is none under the name.
    aside = one.with_name(f"{one.name}-old")
    os.rename(other, aside)
    os.rename(one, other)
    os.rename(aside, one)


class LockedError(DrgcnError):
    """Another process holds a lock."""


@contextmanager
def lock(path: Path, patience: float | None = None) -> Iterator[None]:
    """Hold a lock for as long as the block runs.

    The lock is the kernel's (``flock``), and not the file's being there: it goes with the
    process that holds it, also on ``kill -9``. A file left behind by a kill does no harm.

    Args:
        path: The file of the lock, made if need be and removed at the end.
        patience: Seconds to wait for another process; for ever if not given.

    Raises:
        LockedError: If another process still holds the lock after that.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    latest = None if patience is None else time.monotonic() + patience
    while (handle := _locked_handle(path)) is None:
        if latest is not None and time.monotonic() >= latest:
            raise LockedError(f"{path.name} is held by another process")
        time.sleep(_LOOK_EVERY)
    try:
        yield
    finally:
        # Removed while it is still held, so that nobody else's file is removed.
        path.unlink(missing_ok=True)
        os.close(handle)


def disk_is_full(error: BaseException) -> bool:
    """Return whether an error says that there is no room to write.

    Libraries that write files pass on the system's words and not its number, or, as NumPy, only
    the bytes written and requested.
    """
    if isinstance(error, OSError) and error.errno in DISK_FULL:
        return True
    text = str(error)
    if any(f"os error {number}" in text or os.strerror(number) in text for number in DISK_FULL):
        return True
    return isinstance(error, OSError) and bool(_CUT_SHORT.fullmatch(text))


def explain_system_error(error: BaseException) -> str | None:
    """Return a sentence for an error of the operating system; ``None`` for any other error."""
    if disk_is_full(error):
        return (
            "Expected room on the disk for what is written; found none left. Free some, or write "
            "to another place, and run the same command again."
        )
    if isinstance(error, MemoryError) or _ALLOCATION.search(str(error)):
        return (
            "Expected memory for what was asked; found too little. Ask for less at once, or use a "
            "larger machine."
        )
    if isinstance(error, RecursionError):
        return (
            "Expected input that is nested a few hundred deep at most; found more. Use simpler "
            "input."
        )
    if not isinstance(error, OSError):
        return None
    place = "one" if error.filename is None else str(error.filename)
    reason = (error.strerror or str(error)).lower()
    return (
        f"Expected files and folders that can be read and written; found {place} of which the "
        f"system says: {reason}. Check the path and your rights to it."
    )


@contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """Yield the path of an empty file beside another, which no other process takes for its own.

    It is locked for as long as it is written, so that what a killed process left can be told
    from what another is writing, be it on another machine.
    """
    remove_orphans(path)
    partial, handle = _locked_partial(path)
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)  # also on a full disk, and when interrupted
        os.close(handle)


def _locked_partial(path: Path) -> tuple[Path, int]:
    while True:
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
        handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # also where the file system knows no locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if partial.exists():
            return partial, handle
        os.close(handle)  # taken for an orphan before it was locked


def remove_orphans(path: Path) -> None:
    """Remove what killed processes had begun to write for a file, or others that begin with its
    name and a dot."""
    _remove_orphans(path.parent, rf"\.{re.escape(path.name)}\.(.+\.)?")


def sweep(*folders: Path) -> None:
    """Remove what killed processes had begun to write into folders, whatever its name."""
    for folder in folders:
        if folder.is_dir():
            _remove_orphans(folder, r"\..+\.")


def _remove_orphans(folder: Path, begin: str) -> None:
    orphan = re.compile(rf"{begin}[0-9a-f]{{8}}\.partial")
    with os.scandir(folder) as entries:
        left = [entry.path for entry in entries if orphan.fullmatch(entry.name)]
    for name in left:
        with suppress(OSError):
            handle = os.open(name, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name)
            finally:
                os.close(handle)


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _write(path: Path, content: str | bytes) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_all(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            _sync(path)


def _locked_handle(path: Path) -> int | None:
    """Return a locked file handle, or ``None`` if another process has the lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, handle)
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between opening and locking, its holder may have removed the file: then the lock is
            # on a file that nobody else will ever find.
            if os.path.samestat(os.stat(path), os.fstat(handle)):
                undo.pop_all()
                return handle
    return None


def _remove_if_orphaned(partial: Path) -> None:
    with suppress(OSError):
        handle = os.open(partial, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_folder(partial)
        finally:
            os.close(handle)


def remove_folder(folder: Path) -> None:
    """Remove a folder as far as the system lets it; a step that fails may not fail again."""
    for _ in range(2):
        shutil.rmtree(folder, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
