"""Reads ``lr=1e-4:1e-1:log`` and ``hidden_channels=16,32,64``."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Sequence

from drgcn.errors import InputError
from drgcn.studies.experiment import Experiment
from drgcn.studies.tuning.setting_range import SettingRange, Value

_FORMS = "name=low:high, name=low:high:log or name=a,b,c"
# Settings of training itself. Epochs are none of them: they are the budget, the same for all.
_TRAINING: dict[str, type] = {"lr": float, "weight_decay": float}
_SIZES: dict[str, type] = {"dropout": float, "hidden_channels": int, "num_layers": int}
_ROW = {"reweight", "norm", "pre_activation"}  # name the row of a table, and are chosen, not tuned
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}


def tunable(usual: Experiment, make: type) -> dict[str, type]:
    """The settings that can be searched for a model, and the kind of each.

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
    """The ranges of a list of words, in their order.

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
    """One value, of the kind of its setting and within what the setting means."""
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
    """Refuses what the training would not, or only after work was done."""
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
