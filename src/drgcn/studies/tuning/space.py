"""Search spaces: ranges of settings, their notation, and the default around a recipe."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drgcn.errors import InputError
from drgcn.studies.experiment import (
    KIND_WORDS,
    Experiment,
    Value,
    read_value,
    read_values,
    values_by_name,
)

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


_DIGITS = 4  # of a drawn number: what a table prints can be typed again
_REPEATS = 1000  # draws in a row without new settings after which there are taken to be none
_FORMS = "name=low:high, name=low:high:log or name=a,b,c"
_WIDTHS = {
    "gat": (16, 32, 64, 128),  # all heads together: multiples of eight
    "graphsage": (32, 64, 128, 256),
}


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
        """Both ends of a range, or all values: a model has to accept each of them."""
        return self.choices or (self.low, self.high)

    def contains(self, value: Any) -> bool:
        """Return whether the search could have drawn a value."""
        if self.choices:
            # True equals 1 in Python; as a setting it is something else.
            return any(value == one and type(value) is type(one) for one in self.choices)
        return (
            isinstance(value, int if self.whole else int | float)
            and not isinstance(value, bool)
            and self.low <= value <= self.high
        )

    def tidy(self, value: Any) -> Any:
        """Round a drawn value to few digits, inside the range still."""
        if self.choices or self.whole:
            return value
        return min(max(float(f"{value:.{_DIGITS}g}"), self.low), self.high)

    @property
    def size(self) -> float:
        """Number of values that can be drawn; infinite for a range of numbers."""
        if self.choices or self.whole:
            return len(self.choices) or self.high - self.low + 1
        return math.inf

    def draw(self, rng: np.random.Generator) -> Value:
        """Draw a value: all values alike, or all orders of magnitude."""
        if self.choices:
            return self.choices[int(rng.integers(len(self.choices)))]
        # A whole number stands for all that round to it.
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        share = rng.random()
        drawn = low * (high / low) ** share if self.log else low + share * (high - low)
        if self.whole:
            return int(min(max(round(drawn), self.low), self.high))
        return float(self.tidy(drawn))

    def distribution(self) -> BaseDistribution:
        """Return the range as a distribution of optuna."""
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
        """Return it as plain values."""
        if self.choices:
            return {"choices": list(self.choices)}
        return {"low": self.low, "high": self.high, "log": self.log, "whole": self.whole}

    def __str__(self) -> str:
        if self.choices:
            return f"{self.name}={','.join(map(str, self.choices))}"
        return f"{self.name}={self.low:g}:{self.high:g}{':log' if self.log else ''}"


def read_space(words: Sequence[str], usual: Experiment, make: type) -> tuple[SettingRange, ...]:
    """Read the ranges of a list of words, in their order.

    Args:
        words: Each of the form ``name=low:high``, ``name=low:high:log`` or ``name=a,b,c``.
        usual: The model's recipe.
        make: The model's class.
    """
    found = []
    for name, (kind, values) in values_by_name(words, "--space", _FORMS, usual, make).items():
        word = f"{name}={values}"
        if ":" in values:
            found.append(_range(name, kind, values, word))
        else:
            choices = read_values(name, kind, values, f"--space {word}")
            found.append(SettingRange(name, choices=choices))
    return tuple(found)


def _range(name: str, kind: type, values: str, word: str) -> SettingRange:
    parts = values.split(":")
    if kind not in (int, float):
        raise InputError(
            f"Expected values with commas between for {name}, which is {KIND_WORDS[kind]}; "
            f"found --space {word}."
        )
    if len(parts) not in (2, 3) or parts[2:] not in ([], ["log"]):
        raise InputError(f"Expected --space {_FORMS}; found {word!r}.")
    low, high = (float(read_value(name, kind, part, f"--space {word}")) for part in parts[:2])
    if low >= high:
        raise InputError(f"Expected low below high in --space {word}.")
    log = len(parts) == 3
    if log and low <= 0:
        raise InputError(
            f"Expected a range from above 0 on for :log, which draws orders of magnitude; found "
            f"--space {word}."
        )
    if kind is int:
        return SettingRange(name, int(low), int(high), log=log, whole=True)
    return SettingRange(name, low, high, log=log)


def draw_settings(
    space: Sequence[SettingRange], count: int, seed: int, first: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Draw different settings; fewer than asked for if the space has no more.

    The first of a longer list are those of a shorter one.

    Args:
        space: Ranges of the settings.
        count: Number of settings.
        seed: Seed of the draws.
        first: Settings to begin with. (default: the first are drawn too)
    """
    found = [] if first is None else [dict(first)]
    rng, repeats = np.random.default_rng(seed), 0
    wanted = min(count, math.prod(one.size for one in space))
    # A narrow range has few numbers of few digits, and may run out of them.
    while len(found) < wanted and repeats < _REPEATS:
        drawn = {one.name: one.draw(rng) for one in space}
        repeats = repeats + 1 if drawn in found else 0
        if not repeats:
            found.append(drawn)
    return found[:count]


def default_space(usual: Experiment) -> tuple[SettingRange, ...]:
    """Return ranges of learning rate, L2, dropout and width.

    The learning rate reaches ten times below and above the recipe's, for the optimisers of the
    recipes differ: 0.005 with Adam is as usual as 1 with plain gradient descent. MixHop has a
    width for every power, which a search for numbers cannot draw: its second dropout rate takes
    the place of the width.

    Args:
        usual: A model's recipe, see :func:`drgcn.studies.experiment.recipe`.
    """
    found = [
        SettingRange("lr", usual.lr / 10, usual.lr * 10, log=True),
        SettingRange("weight_decay", 1e-6, max(1e-2, 10 * usual.weight_decay), log=True),
        SettingRange("dropout", 0.0, max(0.8, usual.dropout)),
    ]
    if usual.model == "mixhop":
        return (*found, SettingRange("hidden_dropout", 0.0, 0.9))
    widths = set(_WIDTHS.get(usual.model, (16, 32, 64, 128))) | {usual.hidden_channels}
    return (*found, SettingRange("hidden_channels", choices=tuple(sorted(widths))))
