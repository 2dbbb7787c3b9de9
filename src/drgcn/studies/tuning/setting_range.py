"""What a search may choose for one setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Value = bool | int | float | str
_DIGITS = 4  # of a drawn number: what a table prints can be typed again


@dataclass(frozen=True)
class SettingRange:
    """A range of numbers, or a few values.

    Attributes:
        name: The setting: of the :class:`~drgcn.studies.experiment.Experiment`, or an argument of
            the model's class.
        low: The least number of a range.
        high: The greatest, which belongs to it.
        log: Whether orders of magnitude are drawn alike, rather than numbers.
        whole: Whether only whole numbers are drawn.
        choices: The values, if this is no range.
    """

    name: str
    low: float = 0
    high: float = 0
    log: bool = False
    whole: bool = False
    choices: tuple[Value, ...] = ()

    @property
    def ends(self) -> tuple[Value, ...]:
        """Both ends of a range, or all values: what a model has to take for this to make sense."""
        return self.choices or (self.low, self.high)

    def contains(self, value: Any) -> bool:
        """Whether the search could have drawn a value."""
        if self.choices:
            # True equals 1 in Python; as a setting it is something else.
            return any(value == one and type(value) is type(one) for one in self.choices)
        return (
            isinstance(value, int if self.whole else int | float)
            and not isinstance(value, bool)
            and self.low <= value <= self.high
        )

    def tidy(self, value: Any) -> Any:
        """A drawn value with few digits, inside the range still."""
        if self.choices or self.whole:
            return value
        return min(max(float(f"{value:.{_DIGITS}g}"), self.low), self.high)

    def distribution(self) -> BaseDistribution:
        """The same in optuna's words."""
        from optuna.distributions import (
            CategoricalDistribution,
            FloatDistribution,
            IntDistribution,
        )

        if self.choices:
            return CategoricalDistribution(self.choices)
        if self.whole:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        if self.choices:
            return {"choices": list(self.choices)}
        return {"low": self.low, "high": self.high, "log": self.log, "whole": self.whole}

    def __str__(self) -> str:
        if self.choices:
            return f"{self.name}={','.join(map(str, self.choices))}"
        return f"{self.name}={self.low:g}:{self.high:g}{':log' if self.log else ''}"
