"""``--set name=value``: arguments of a model's class that have no option of their own."""

from __future__ import annotations

import inspect
import json as jsonlib
from typing import TYPE_CHECKING, Any

from drgcn.errors import InputError

if TYPE_CHECKING:
    import torch


def read_settings(pairs: list[str]) -> dict[str, Any]:
    """Arguments out of ``name=value``, where values are JSON, Python's constants, or words."""
    own = {
        **{"dropout": "--dropout", "num_layers": "--layers", "hidden_channels": "--hidden"},
        **{"batch_size": "--batch-size", "inductive": "--inductive", "epochs": "--epochs"},
        **{"lr": "--lr", "weight_decay": "--weight-decay"},
    }
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"Expected --set name=value; found {pair!r}.")
        if name in own and not value.startswith("["):
            raise InputError(f"Expected {own[name]} {value}; found --set {pair}.")
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
    """Refuses settings of another kind than the argument's default, which models do not all
    look at before training."""
    kinds: dict[type, tuple[str, tuple[type, ...]]] = {
        bool: ("true or false", (bool,)),
        int: ("a whole number", (int,)),
        float: ("a number", (int, float)),
        str: ("a word", (str,)),
        tuple: ("a list", (list,)),
    }
    arguments = inspect.signature(make).parameters
    for name, value in settings.items():
        words, types = kinds.get(type(arguments[name].default), ("", (object,)))
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise InputError(f"Expected {words} in --set {name}=...; found {value!r}.")


def try_a_step(model: torch.nn.Module, num_features: int) -> None:
    """Samples a graph of two nodes, for samplers look at their settings only when they are made.

    Models that do not sample are left alone.
    """
    import torch
    from torch_geometric.data import Data

    if not hasattr(model, "prepare_training"):
        return
    pair = torch.tensor([[0, 1], [1, 0]])
    data = Data(x=torch.ones(2, num_features), edge_index=pair)
    with torch.no_grad():
        model.sampled(torch.arange(2), *model.prepare_training(data))  # type: ignore[operator]
