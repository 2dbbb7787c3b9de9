"""A number as the paper prints it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from drgcn.errors import InputError

_FORM = re.compile(r"(-?[\d,]*\.?\d+)\s*(?:±\s*(\d*\.?\d+))?\s*(%?)")


@dataclass(frozen=True)
class PrintedNumber:
    """A number of a table, and how it stands there.

    Attributes:
        mean: The number.
        std: What is printed behind ``±``, the standard deviation over runs; ``None`` where
            nothing is.
        text: As it is printed: ``"86.8 ± 0.5"``, ``"2,708"``, ``"42.3 %"``.
    """

    mean: float
    std: float | None
    text: str

    @classmethod
    def read(cls, text: str) -> PrintedNumber:
        """The number that stands in a cell.

        Example:
            >>> PrintedNumber.read("86.8±0.5")
            PrintedNumber(mean=86.8, std=0.5, text='86.8 ± 0.5')
        """
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise InputError(
                f"Expected a number such as 86.8 ± 0.5, 2,708 or 42.3 %; found {text.strip()!r}: "
                "write - where the paper prints nothing"
            )
        mean, std, percent = found.groups()
        words = mean + (f" ± {std}" if std else "") + (" %" if percent else "")
        return cls(float(mean.replace(",", "")), float(std) if std else None, words)

    @property
    def decimals(self) -> int:
        """Digits behind the point: the number is rounded to so many."""
        return len(re.split(r"[ %]", self.text)[0].partition(".")[2])

    def __str__(self) -> str:
        return self.text
