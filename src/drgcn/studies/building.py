"""The model of an experiment."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch_geometric.data import Data

from drgcn.errors import InputError
from drgcn.nn import ASGCN, GAT, GCN, LGCN, MLP, ChebNet, FastGCN, GeniePath, GraphSAGE, MixHop
from drgcn.studies.experiment import Experiment
from drgcn.studies.recipes import recipe

_CLASSES: dict[str, type[torch.nn.Module]] = {
    "gcn": GCN,
    "gat": GAT,
    "mixhop": MixHop,
    "chebyshev": ChebNet,
    "mlp": MLP,
    "lgcn": LGCN,
    "geniepath": GeniePath,
    "graphsage": GraphSAGE,
    "fastgcn": FastGCN,
    "asgcn": ASGCN,
}


def build(experiment: Experiment, data: Data) -> torch.nn.Module:
    """The model of an experiment, for the widths of ``data``."""
    arguments: dict[str, Any] = {
        "hidden_channels": experiment.hidden_channels,
        "num_layers": experiment.num_layers,
        "dropout": experiment.dropout,
        "reweight": experiment.reweight,
    }
    if experiment.model != "mixhop":
        arguments["norm"] = experiment.norm
    elif experiment.norm is not None:
        raise InputError("Expected no norm with mixhop, which has a batch norm of its own.")
    if experiment.model == "gcn":
        arguments["pre_activation"] = experiment.pre_activation
    elif experiment.pre_activation:
        raise InputError(f"Expected pre-activation with gcn alone; found {experiment.model}.")
    if doubled := sorted({"reweight", "norm", "pre_activation"} & experiment.options.keys()):
        raise InputError(
            f"Expected {', '.join(doubled)} as a setting of its own, which names the row of a "
            f"table; found it among the options {experiment.options}."
        )
    make = _CLASSES[experiment.model]
    _expect_known(make, experiment.options)
    try:
        return make(
            in_channels=data.num_features,
            out_channels=data.dataset.classes,
            **{**arguments, **experiment.options},
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"Expected arguments that {make.__name__} takes{_given(experiment)}. {error}"
        ) from None


def _expect_known(make: type[torch.nn.Module], options: dict[str, Any]) -> None:
    """Refuses options that a class has no argument for, and those that the data decides."""
    decided = {"in_channels", "out_channels", "reweight", "norm", "pre_activation"}
    known = sorted(inspect.signature(make).parameters.keys() - decided)
    unknown = {name: value for name, value in options.items() if name not in known}
    if unknown:
        raise InputError(
            f"Expected arguments that {make.__name__} takes as options ({', '.join(known)}); "
            f"found {_words(unknown)}."
        )


def _given(experiment: Experiment) -> str:
    """The options that are not those of the model's recipe, for nobody gave the others."""
    usual = recipe(experiment.dataset, experiment.split, experiment.model).options
    given = {k: v for k, v in experiment.options.items() if k not in usual or usual[k] != v}
    return f"; found {_words(given)}" if given else ""


def _words(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items())
