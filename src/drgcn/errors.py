"""Everything this package raises on purpose, under one base class."""

from __future__ import annotations


class DrgcnError(Exception):
    """Base of all errors that a caller of :mod:`drgcn` may want to catch."""


class InputError(DrgcnError, ValueError):
    """Input that cannot be used: says what was expected, what came, and what to do."""

    def __init__(self, message: object = "") -> None:
        words = str(message)
        # Files can hold words of any length, and messages quote them.
        super().__init__(words if len(words) <= 1500 else f"{words[:900]} ... {words[-500:]}")


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


def how_to_install(extra: str) -> str:
    """Return the end of an error's sentence: how to install the packages of an extra."""
    # Not by the name drgcn: no index of packages has it.
    return f"In the folder of drgcn's source code, run: pip install '.[{extra}]'"
