"""Everything this package raises on purpose, under one base class."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Final

_LONGEST: Final = 1500
# What ends a line, with the blanks around it.
_BREAK: Final = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


class DrgcnError(Exception):
    """Base of all errors that a caller of :mod:`drgcn` may want to catch.

    Files can hold words of any length and form, and messages quote them: a message is one line
    that any terminal can show.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(str(message)))


def one_line(words: str) -> str:
    """Return words as one line of bounded length, without characters that control a terminal."""
    if len(words) > _LONGEST:
        words = f"{words[:900]} ... {words[-500:]}"
    shown = printable(_BREAK.sub(" ", words.strip()))
    return shown if len(shown) <= _LONGEST else f"{shown[:900]} ... {shown[-500:]}"


def printable(words: str) -> str:
    """Return words with characters that control a terminal, but for ends of lines, written out."""
    return words if words.isprintable() else "".join(map(_shown, words))


def _shown(character: str) -> str:
    keep = character.isprintable() or character == "\n"
    return character if keep else ascii(character)[1:-1]


class InputError(DrgcnError, ValueError):
    """Input that cannot be used: says what was expected, what came, and what to do."""


class NoResultError(DrgcnError):
    """Training that came to its end without usable networks; its checkpoint leads there again."""


class MissingDataError(DrgcnError, FileNotFoundError):
    """A dataset's files are not where they were looked for."""


class UndefinedStability(DrgcnError, ValueError):  # noqa: N818 - a state of the data, not a fault
    """A measure of spread asked of features that do not spread."""


class NonFiniteError(InputError):
    """A value that is no finite number; the message names its row and column."""


class CovarianceError(InputError):
    """A matrix that is no covariance: not square, not symmetric, or not positive semi-definite."""


class ZeroVarianceError(InputError):
    """A formula that divides by a variance, asked where that variance is zero."""


class DimensionError(InputError):
    """A statement asked in fewer dimensions than it needs."""


class DrgcnWarning(UserWarning):
    """Something worth knowing that does not stop the work."""


def was_interrupted(error: BaseException) -> bool:
    """Return whether Ctrl-C led to an error, which then tells of something else: code that is
    stopped anywhere can fail in its own clearing up."""
    return came_of(error, KeyboardInterrupt)


def came_of(error: BaseException, kind: type[BaseException]) -> bool:
    """Return whether an error is of a kind, or tells of one that is."""
    chain = [error]
    for one in chain:
        linked = (one.__cause__, one.__context__)
        chain += [other for other in linked if other is not None and other not in chain]
    return any(isinstance(one, kind) for one in chain)


# Packages between the line of a user and ours: torch calls models, contextlib what writes files.
_PASSED: Final = ("drgcn", "torch", "torch_geometric", "contextlib")


def warn(words: str) -> None:
    """Warn with a :class:`DrgcnWarning` that points at the line of the user's that led here."""
    frame = sys._getframe(1)
    while frame.f_back and (frame.f_globals.get("__name__") or "").split(".")[0] in _PASSED:
        frame = frame.f_back
    warnings.warn_explicit(
        words,
        DrgcnWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        frame.f_globals.get("__name__"),
        frame.f_globals.setdefault("__warningregistry__", {}),
    )


def how_to_install(extra: str) -> str:
    """Return the end of an error's sentence: how to install the packages of an extra."""
    # Not by the name drgcn: no index of packages has it.
    return f"In the folder of drgcn's source code, run: pip install '.[{extra}]'"
