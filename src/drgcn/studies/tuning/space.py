"""Search spaces: ranges of settings, their notation, and the default around a recipe."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drgcn.errors import InputError
from drgcn.studies.experiment import Experiment

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


Value = bool | int | float | str
_DIGITS = 4  # of a drawn number: what a table prints can be typed again
_FORMS = "name=low:high, name=low:high:log or name=a,b,c"
# Settings of training itself. Epochs are none of them: they are the budget, the same for all.
_TRAINING: dict[str, type] = {"lr": float, "weight_decay": float}
_SIZES: dict[str, type] = {"dropout": float, "hidden_channels": int, "num_layers": int}
_ROW = {"reweight", "norm", "pre_activation"}  # name the row of a table, and are chosen, not tuned
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
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


def tunable(usual: Experiment, make: type) -> dict[str, type]:
    """Return the settings that can be searched for a model, and the type of each.

    Args:
        usual: The model's recipe.
        make: The model's class. Of its arguments those count that are numbers, words, or true or
            false: a list cannot be drawn.
    """
    found = {**_TRAINING, **_SIZES}
    if usual.batch_size is not None:
        found["batch_size"] = int
    for name, argument in inspect.signature(make).parameters.items():
        if name not in found and name not in _ROW and type(argument.default) in _WORDS:
            found[name] = type(argument.default)
    lists = {name for name, value in usual.options.items() if isinstance(value, list | tuple)}
    return {name: kind for name, kind in found.items() if name not in lists}


def read_space(words: Sequence[str], usual: Experiment, make: type) -> tuple[SettingRange, ...]:
    """Read the ranges of a list of words, in their order.

    Args:
        words: Each of the form ``name=low:high``, ``name=low:high:log`` or ``name=a,b,c``.
        usual: The model's recipe.
        make: The model's class.
    """
    kinds = tunable(usual, make)
    found: dict[str, SettingRange] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or not values:
            raise InputError(f"Expected --space {_FORMS}; found {word!r}.")
        if name not in kinds:
            raise InputError(
                f"Expected a setting that can be searched for {usual.model} "
                f"({', '.join(sorted(kinds))}); found {name!r} in --space {word}."
            )
        if name in found:
            raise InputError(f"Expected every setting once in --space; found {name} twice.")
        if ":" in values:
            found[name] = _range(name, kinds[name], values, word)
        else:
            choices = tuple(_value(name, kinds[name], part, word) for part in values.split(","))
            if len(set(choices)) < len(choices):
                raise InputError(f"Expected every value once; found --space {word}.")
            found[name] = SettingRange(name, choices=choices)
    return tuple(found.values())


def _range(name: str, kind: type, values: str, word: str) -> SettingRange:
    parts = values.split(":")
    if kind not in (int, float):
        raise InputError(
            f"Expected values with commas between for {name}, which is {_WORDS[kind]}; found "
            f"--space {word}."
        )
    if len(parts) not in (2, 3) or parts[2:] not in ([], ["log"]):
        raise InputError(f"Expected --space {_FORMS}; found {word!r}.")
    low, high = (float(_value(name, kind, part, word)) for part in parts[:2])
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


def _value(name: str, kind: type, word: str, whole_word: str) -> Value:
    """Read one value, of the type of its setting and within its limits."""
    found: Value = word
    if kind is not str:
        try:
            found = json.loads(word.strip().lower() if kind is bool else word)
        except json.JSONDecodeError:
            found = ""
    fits = isinstance(found, int | float) if kind is float else type(found) is kind
    if not fits or (kind is float and isinstance(found, bool)) or found == "":
        raise InputError(
            f"Expected {_WORDS[kind]} for {name}; found {word!r} in --space {whole_word}."
        )
    if kind is float:
        found = float(found)
        if not math.isfinite(found):
            raise InputError(f"Expected a finite number; found {word!r} in --space {whole_word}.")
    _expect_sensible(name, found, whole_word)
    return found


def _expect_sensible(name: str, value: Value, word: str) -> None:
    """Refuse values that training would accept, or refuse only after work was done."""
    if isinstance(value, str | bool):
        return
    if name in ("hidden_channels", "num_layers", "batch_size") and value < 1:
        raise InputError(f"Expected {name} from 1 on; found {value} in --space {word}.")
    if name == "lr" and value <= 0:
        raise InputError(f"Expected lr above 0; found {value} in --space {word}.")
    if name == "weight_decay" and value < 0:
        raise InputError(f"Expected weight_decay from 0 on; found {value} in --space {word}.")
    if name.endswith("dropout") and not 0 <= value < 1:
        raise InputError(f"Expected {name} in [0, 1); found {value} in --space {word}.")


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
