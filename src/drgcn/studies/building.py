"""The model of an experiment."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data import Data

from drgcn.errors import InputError
from drgcn.nn import ASGCN, GAT, GCN, MLP, ChebNet, FastGCN, GraphSAGE, MixHop
from drgcn.studies.experiment import Experiment

_CLASSES: dict[str, type[torch.nn.Module]] = {
    "gcn": GCN,
    "gat": GAT,
    "mixhop": MixHop,
    "chebyshev": ChebNet,
    "mlp": MLP,
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
    try:
        return make(
            in_channels=data.num_features,
            out_channels=data.dataset.classes,
            **{**arguments, **experiment.options},
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"Expected arguments that {make.__name__} takes; found {experiment.options} "
            f"({error}). Its documentation lists them."
        ) from None
