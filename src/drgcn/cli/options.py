"""Options that several verbs share, the checks that come with them, and the line of progress."""

from __future__ import annotations

import errno
import inspect
import json as jsonlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn._format import duration
from drgcn._io import DISK_FULL
from drgcn.errors import InputError, was_interrupted

if TYPE_CHECKING:
    import torch
    from rich.console import Console

# Reasons of the system why a path cannot be written.
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


class Gate(StrEnum):
    """Gate at the Dr position."""

    dr = "dr"
    none = "none"
    static = "static"
    constant = "constant"


class ModelGate(StrEnum):
    """Gate at the Dr position of a model of nodes."""

    dr = "dr"
    none = "none"
    dr_one = "dr-one"
    dr_exp = "dr-exp"
    class_share = "class-share"
    shuffled_class_share = "shuffled-class-share"
    class_share_pseudo = "class-share-pseudo"
    shuffled_class_share_pseudo = "shuffled-class-share-pseudo"
    variance = "variance"
    shuffled_variance = "shuffled-variance"
    static = "static"
    constant = "constant"


class NormName(StrEnum):
    """Normalisation at the Dr position."""

    none = "none"
    batch = "batch"
    layer = "layer"
    graph = "graph"
    pair = "pair"


class Seen(StrEnum):
    """Part of one graph that training does not see."""

    none = "none"
    train = "train"
    apart = "apart"


class Rule(StrEnum):
    """Rule that chooses the epoch to test."""

    best_validation = "best-validation"
    rising_loss = "rising-loss"
    patience = "patience"


Dataset = Annotated[
    str, typer.Argument(help="A dataset's name (see `drgcn data list`), or a path to your own.")
]
Split = Annotated[str | None, typer.Option(help="Split.", show_default="the first listed")]
Normalize = Annotated[
    str | None,
    typer.Option(help="Features: row, standard or none.", show_default="the dataset's own"),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="Column or array of your own data with numbers to predict, a regression.",
        show_default="none, classes are predicted",
    ),
]
FeatureFile = Annotated[
    Path | None, typer.Option(help="Feature file of corar or citeseerr: .npy, .npz, .pkl.")
]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the datasets.", envvar="DRGCN_DATA", show_default="~/.cache/drgcn"
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never download.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads.", show_default="all")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.")]


INTERRUPTED = "interrupted; run the same command again to go on from what was saved"
_LINE_EVERY = 10.0  # seconds between lines of progress where nothing can be redrawn
_ENOUGH = 0.01  # of the work, seen from one look to another: less says little of the rest


class ProgressLine:
    """One line on standard error: what is done, how far it has come, and the time left.

    On a terminal it is drawn in place and goes at the end; elsewhere it is printed now and then.
    An interruption inside ends the command with exit code 130, and says how to go on.

    Args:
        what: What is done, in a word or two.
        quiet: Show nothing.
        resumes: The same command goes on where it was interrupted.
        console: Where to show it. (default: standard error)
    """

    def __init__(
        self,
        what: str,
        quiet: bool = False,
        *,
        resumes: bool = False,
        console: Console | None = None,
    ) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        self._quiet, self._resumes = quiet, resumes
        self._console = console or Console(stderr=True)
        self._first: tuple[float, float] | None = None
        self._printed = time.monotonic()
        words = TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        )
        self._bar = Progress(
            BarColumn(bar_width=12),
            words,
            console=self._console,
            transient=True,
            expand=True,
            disable=quiet or not self._console.is_terminal,
        )
        self._what = what
        self._task = self._bar.add_task(what, total=None)

    def __enter__(self) -> ProgressLine:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
        if self._resumes and error is not None and was_interrupted(error):
            print(INTERRUPTED, file=sys.stderr)
            raise typer.Exit(130) from None

    def show(self, words: str = "", share: float | None = None, what: str = "") -> None:
        """Show some words and the share of the work that is done; ``None`` if nobody knows it.

        Args:
            words: What there is to say of the work.
            share: Share of the work that is done, from 0 to 1.
            what: What is done now, if it is not what was said before.
        """
        if self._quiet:
            return
        if what and what != self._what:  # other work has a pace of its own
            self._what, self._first = what, None
        parts = [self._what]
        if share is not None:
            parts[0] += f" {100 * share:.0f} %"
            if (left := self._left(share)) is not None:
                parts.append(f"{duration(left)} left")
        line = ", ".join([*parts, *([words] if words else [])])
        if not self._bar.disable:
            total = None if share is None else 1.0
            self._bar.update(self._task, description=line, completed=share, total=total)
        elif time.monotonic() - self._printed >= _LINE_EVERY:
            self._printed = time.monotonic()
            self.say(line)

    def say(self, line: str) -> None:
        """Print a line that stays."""
        if not self._quiet:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _left(self, share: float) -> float | None:
        """Seconds for the rest, at the pace since the first look: a run may have gone on."""
        now = time.monotonic()
        if self._first is None or share < self._first[0]:
            self._first = (share, now)
        before, start = self._first
        if share - before < _ENOUGH:
            return None
        return (now - start) / (share - before) * max(1.0 - share, 0.0)


def use_threads(threads: int | None) -> None:
    """Limit torch to a number of threads."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)


def whole_numbers(text: str, option: str, example: str) -> tuple[int, ...]:
    """Read numbers with commas between, such as ``10,5``."""
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch(r"-?[0-9]{1,9}", word) for word in words):
        raise InputError(f"Expected {option} such as {example}; found {text!r}.")
    return tuple(map(int, words))


def use_device(name: str) -> torch.device:
    """Return the device of a name, if this machine has it."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"Expected --device cpu, cuda or auto; found {name!r}.") from None
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"Expected --device cpu, cuda or auto; found {name!r}.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("Expected a CUDA device; this machine has none. Use --device cpu.")
    return device


_OWN_OPTIONS = {
    "hidden_channels": "--hidden, a whole number",
    "num_layers": "--layers, a whole number",
    "dropout": "--dropout, a rate in [0, 1)",
    "batch_size": "--batch-size, a whole number",
    "inductive": "--inductive: none, train or apart",
    "epochs": "--epochs, a whole number",
    "lr": "--lr, a number from 0 on",
    "weight_decay": "--weight-decay, a number from 0 on",
}


def read_settings(pairs: list[str]) -> dict[str, Any]:
    """Read arguments ``name=value``, whose values are JSON, Python's constants, or words."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"Expected --set name=value; found {pair!r}.")
        if name in _OWN_OPTIONS and not value.startswith("["):
            raise InputError(
                f"Expected --set with arguments that have no option of their own; found --set "
                f"{pair}. Use {_OWN_OPTIONS[name]}."
            )
        constants = {"True": True, "False": False, "None": None}
        try:
            found[name] = constants[value] if value in constants else jsonlib.loads(value)
        except jsonlib.JSONDecodeError:
            if not value.replace("-", "_").isidentifier():
                raise InputError(
                    f"Expected a number, true, false, null, a word or a list in --set {name}=...; "
                    f"found {value!r}."
                ) from None
            found[name] = value
    return found


def check_kinds(make: type, settings: dict[str, Any]) -> None:
    """Refuse settings of another type than the argument's default.

    Not all models check this before training.
    """
    kinds: dict[type, tuple[str, tuple[type, ...]]] = {
        bool: ("true or false", (bool,)),
        int: ("a whole number", (int,)),
        float: ("a number", (int, float)),
        str: ("a word", (str,)),
        tuple: ("a list", (list,)),
    }
    usual: dict[str, Any] = {"exponent": 0.5, "steps": 2}  # of measured gates
    usual |= {name: a.default for name, a in inspect.signature(make).parameters.items()}
    for name, value in settings.items():
        words, types = kinds.get(type(usual[name]), ("", (object,)))
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise InputError(f"Expected {words} in --set {name}=...; found {value!r}.")


def use_folder(path: Path, option: str = "--out") -> Path:
    """Return a folder that can be written to, made if need be."""
    _note_new(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        _expect_writable(path)
    except OSError as error:
        raise _unwritable(option, "a folder that can be written to", path, error) from None
    return path


def expect_folder(path: Path, option: str = "--out") -> Path:
    """Return a folder that can be written to; if it is not there, nothing is made yet."""
    if path.exists():
        return use_folder(path, option)
    _expect_writable_parent(path, option, "a folder that can be written to")
    _note_new(path)
    return path


def expect_new_folder(path: Path, option: str = "--out") -> None:
    """Refuse a path that exists, or at which no folder can be made; makes nothing."""
    _expect_writable_parent(path, option, "a new folder")
    if path.exists() or path.is_symlink():
        raise InputError(
            f"Expected {option} to be a new folder; {path} is there already. Choose another name."
        )
    _note_new(path)


def expect_file(path: Path, option: str = "--out") -> None:
    """Refuse a path at which no file can be written; a file there may be replaced."""
    _expect_writable_parent(path, option, "a file that can be written")
    if path.is_dir():
        raise _unwritable(option, "a file", path, IsADirectoryError(errno.EISDIR, ""))
    _note_new(path.parent)


# Folders of this command that were not there before, the innermost first.
_NEW: ContextVar[list[Path] | None] = ContextVar("new folders", default=None)


@contextmanager
def removing_empty() -> Iterator[None]:
    """At the end, remove new folders of the block that nothing was written to."""
    new: list[Path] = []
    before = _NEW.set(new)
    try:
        yield
    finally:
        _NEW.reset(before)
        for folder in new:
            for path, _, _ in os.walk(folder, topdown=False):
                with suppress(OSError):  # it has files
                    os.rmdir(path)


def _note_new(folder: Path) -> None:
    new = _NEW.get()
    if new is not None:
        path = folder.absolute()
        new += [part for part in (path, *path.parents) if not os.path.lexists(part)]


def _expect_writable_parent(path: Path, option: str, wanted: str) -> None:
    try:
        # Nothing is made yet: the work may still be refused for another reason.
        whole = path.absolute()  # the root has no parents
        nearest = next((part for part in whole.parents if part.exists()), whole)
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
