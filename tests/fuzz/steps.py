"""Look at every step that a verb takes on files below a folder, in its own process."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

#: Called with the kind of a step and a path.
Look = Callable[[str, str], None]
_KINDS: Final = {
    "mkdir": "open",
    "fsync": "fsync",
    "rename": "rename",
    "replace": "rename",
    "link": "link",
    "unlink": "remove",
    "rmdir": "remove",
}
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def module(name: str) -> Any:
    """Return a module of the library."""
    return importlib.import_module(f"drgcn.{name}")


@contextlib.contextmanager
def steps_seen(folder: Path, before: Look, after: Look | None = None) -> Iterator[None]:
    """Call functions before and after whatever is opened ("open" to write or make, "read"), synced
    ("fsync"), renamed, linked or removed below a folder; what they raise takes its place."""

    def stepping(plain: Callable[..., Any], kind_of: Callable[..., str]) -> Callable[..., Any]:
        def stepped(path: Any, *args: Any, **options: Any) -> Any:
            place = _place(path)
            inside = place.startswith(str(folder))
            kind = kind_of(*args, **options) if inside else ""
            if inside:
                before(kind, place)
            found = plain(path, *args, **options)
            if inside and after is not None:
                after(kind, place)
            return found

        return stepped

    def by_mode(mode: str = "r", *_: Any, **__: Any) -> str:
        return "open" if set(mode) & set("wax+") else "read"

    def by_flags(flags: int, *_: Any, **__: Any) -> str:
        return "open" if flags & _WRITES else "read"

    with pytest.MonkeyPatch.context() as patch:
        opened = stepping(io.open, by_mode)
        for place in (builtins, io):
            patch.setattr(place, "open", opened)
        patch.setattr(os, "open", stepping(os.open, by_flags))
        for name, kind in _KINDS.items():
            patch.setattr(os, name, stepping(getattr(os, name), lambda *_, k=kind, **__: k))
        files, checkpoint = module("_io"), module("training.checkpoint")
        patch.setattr(files, "_exchange", stepping(files._exchange, lambda *_: "rename"))
        patch.setattr(
            checkpoint, "safe_open", stepping(checkpoint.safe_open, lambda *_, **__: "read")
        )
        yield


def _place(path: Any) -> str:
    if isinstance(path, int):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/self/fd/{path}")
        return ""
    return os.path.abspath(os.fsdecode(path))
