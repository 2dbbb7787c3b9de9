"""Models of experiments with their losses, stopping rules and optimisers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from drgcn._io import explain_system_error
from drgcn.errors import InputError
from drgcn.gates import gate_factory
from drgcn.nn import model_class
from drgcn.studies.experiment import GATE_OPTIONS, MEASURED_GATES, Experiment, recipe
from drgcn.training import BestValidation, Patience, RisingLoss, StoppingRule
from drgcn.training.inputs import MakeOptimizer
from drgcn.training.objectives import LossChoice, MetricChoice

OPTIMIZERS: dict[str, MakeOptimizer] = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


def build(experiment: Experiment, data: Data) -> torch.nn.Module:
    """Build the model of an experiment, for the widths of ``data``."""
    options: dict[str, Any] = experiment.options
    reweight: Any = experiment.reweight
    if reweight in MEASURED_GATES:
        of_gate = {name: value for name, value in options.items() if name in GATE_OPTIONS}
        options = without(options, GATE_OPTIONS)
        reweight = gate_factory(reweight, **of_gate)
    arguments: dict[str, Any] = {
        "hidden_channels": experiment.hidden_channels,
        "num_layers": experiment.num_layers,
        "dropout": experiment.dropout,
        "reweight": reweight,
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
    make = model_class(experiment.model)
    _expect_known(make, options)
    try:
        return make(
            in_channels=data.num_features,
            out_channels=data.dataset.classes,
            **(arguments | options),
        )
    except (TypeError, ValueError, RuntimeError) as error:
        if explain_system_error(error) is not None:  # there was no memory for it
            raise
        raise InputError(
            f"Expected arguments that {make.__name__} takes{_given(experiment)}. {error}"
        ) from None


def without(options: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return all options but some."""
    return {name: value for name, value in options.items() if name not in names}


def _expect_known(make: type[torch.nn.Module], options: dict[str, Any]) -> None:
    """Refuse options that a class has no argument for, and those that the data decides."""
    decided = {"in_channels", "out_channels", "reweight", "norm", "pre_activation"}
    known = sorted(inspect.signature(make).parameters.keys() - decided)
    unknown = {name: value for name, value in options.items() if name not in known}
    if unknown:
        raise InputError(
            f"Expected arguments that {make.__name__} takes as options ({', '.join(known)}); "
            f"found {_words(unknown)}."
        )


def _given(experiment: Experiment) -> str:
    """Describe the options that differ from the recipe: the user gave no others."""
    usual = recipe(experiment.dataset, experiment.split, experiment.model).options
    given = {k: v for k, v in experiment.options.items() if k not in usual or usual[k] != v}
    return f"; found {_words(given)}" if given else ""


def _words(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items())


def stopping_rule(experiment: Experiment) -> StoppingRule:
    """Return the stopping rule of an experiment."""
    match experiment.rule:
        case "best-validation":
            return BestValidation(experiment.patience)
        case "rising-loss":
            return RisingLoss()
        case "patience":
            return Patience(experiment.patience or 100, experiment.watch)


def learnt_by_fit(
    experiment: Experiment, data: Data
) -> tuple[Callable[[], torch.nn.Module], LossChoice, MetricChoice]:
    """Return the function that builds the model of an experiment, and its loss and metric.

    Measured values are learnt standardised, by statistics of the training nodes.
    """
    if usual_loss(data) is None:
        return functools.partial(build, experiment, data), None, experiment.metric
    values = data.y[data.train_mask]
    loss = functools.partial(_standardized_error, std=_std(values))
    return (
        lambda: InUnits(build(experiment, data), values),
        loss,
        experiment.metric or "R2",
    )


def usual_loss(data: Data) -> str | None:
    """Return the loss of data from :func:`drgcn.load`: squared errors of measured values, also of
    whole ones, or ``None`` for the loss that labels have by their form."""
    measured = data.y.is_floating_point() and not data.dataset.multi_label
    return "mse" if measured else None


class InUnits(torch.nn.Module):
    """A model of standardised values, with outputs in the unit in which they were measured.

    Args:
        model: The model.
        values: Measured values ``[nodes, values]`` to train on.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: torch.nn.Module, values: Tensor) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("mean", values.mean(0))
        self.register_buffer("std", _std(values))
        for name in ("prepare", "prepare_training", "regularized_parameters", "penalty"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        if hasattr(model, "sampled"):
            self.sampled = self._sampled

    def forward(self, *inputs: Any) -> Tensor:
        """Return values ``[nodes, values]``."""
        return self.model(*inputs) * self.std + self.mean

    def _sampled(self, batch: Tensor, *inputs: Any) -> tuple[Tensor, Tensor]:
        scores, extra = self.model.sampled(batch, *inputs)  # type: ignore[operator]
        return scores * self.std + self.mean, extra


def _std(values: Tensor) -> Tensor:
    spread = values.std(0, correction=0)
    return torch.where(spread > 0, spread, 1.0)


def _standardized_error(scores: Tensor, values: Tensor, *, std: Tensor) -> Tensor:
    return ((scores - values) / std).square().mean()
