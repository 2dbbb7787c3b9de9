"""``compare``: any model plain, with Dr and with control gates, on the same seeds, and judged."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch_geometric.data import Data

from drgcn.errors import InputError, warn
from drgcn.insertion import insert_reweighting
from drgcn.stability.measure import feature_variance, loudest, warning_of_scales
from drgcn.studies.comparison import GATES, Comparison, Guess, Scores
from drgcn.training import fit
from drgcn.training.calling import Prepare, default_prepare, new_model
from drgcn.training.objectives import LossChoice, MetricChoice
from drgcn.training.task import TaskData, graphs_in, tested_labels


def compare(
    make_model: Callable[..., torch.nn.Module],
    data: TaskData,
    seeds: Iterable[int],
    *,
    gates: Sequence[str | None] = GATES,
    split: int | None = None,
    **options: Any,
) -> Comparison:
    """Train a model plain, with Dr and with both control gates on the same seeds, and judge.

    All rows of a seed begin with the same weights of your model.

    Args:
        make_model: Builds your model of PyG convolutions, into which gates are inserted. If it
            takes an argument, that is the gate, and it builds the model with it, such as
            ``lambda gate: drgcn.nn.GCN(..., reweight=gate)``.
        data: See :func:`drgcn.fit`.
        seeds: The seeds; a verdict needs several, and twenty are usual.
        gates: Rows to train; the verdict needs all four.
        split: Column of masks ``[nodes, splits]``.
        **options: Passed on to :func:`drgcn.fit`.

    Example:
        >>> from torch_geometric.nn import GCN
        >>> from drgcn import load
        >>> data = load("planted", nodes=200, labels_per_class=5, val_per_class=10)
        >>> found = compare(lambda: GCN(data.num_features, 8, 2, 4), data, range(2), epochs=2)
        >>> list(found.fits)
        [None, 'dr', 'static', 'constant']
    """
    gates = (gates,) if isinstance(gates, str) else tuple(gates)
    wrong = [gate for gate in gates if gate not in GATES]
    if wrong or not gates:
        raise InputError(
            f"Expected gates out of {list(GATES)}, of which None is the plain model; found "
            f"{wrong or 'none'}."
        )
    if options.get("grid") is not None:
        raise InputError(
            "Expected one setting for all rows; found a grid. Find the best setting by fit first, "
            "then compare with it."
        )
    # Before the training, as it may refuse a metric.
    guess = guess_of(data, split, loss=options.get("loss"), metric=options.get("metric"))
    seeds = tuple(seeds) if isinstance(seeds, Iterable) else seeds  # an iterator is read once
    makers = {gate: _gated(make_model, gate, data, options.get("prepare")) for gate in gates}
    _expect_different_rows(makers)
    _warn_of_scales(data)
    fits = {}
    for gate, make in makers.items():
        own = dict(options)
        if own.get("checkpoint") is not None:
            path = Path(own["checkpoint"])
            own["checkpoint"] = path.with_name(f"{path.name}-{gate or 'plain'}")
        fits[gate] = fit(make, data, seeds, split=split, **own)
    rows = {
        gate: {
            seed: Scores(*scores)
            for seed, *scores in zip(
                result.seeds, result.test_accuracy, result.val_accuracy, strict=True
            )
        }
        for gate, result in fits.items()
    }
    return Comparison(rows, guess, fits)


def _gated(
    make_model: Callable[..., torch.nn.Module],
    gate: str | None,
    data: TaskData,
    prepare: Prepare | None,
) -> Callable[[], torch.nn.Module]:
    """Return a function that builds the model of a row."""
    if isinstance(make_model, torch.nn.Module) or not callable(make_model):
        return make_model  # which fit refuses
    parameters = inspect.signature(make_model).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.default is p.empty and p.kind in positional]
    if len(needed) == 1:
        return lambda: make_model(gate)
    if gate is None:
        return make_model

    def make() -> torch.nn.Module:
        model = make_model()
        if any(is_lazy(parameter) for parameter in model.parameters()):
            # First, as without a gate: gates draw random numbers for their weights too.
            graph = next(iter(graphs_in(data)))
            with torch.no_grad():
                model.eval()(*(prepare or default_prepare(model))(graph))
            model.train()
        return insert_reweighting(model, gate=gate)

    return make


def _expect_different_rows(makers: Mapping[str | None, Callable[[], torch.nn.Module]]) -> None:
    """Refuse models that cannot be built, and rows that would be the same model twice."""
    states = {}
    for gate, make in makers.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            parameters = new_model(make).named_parameters()
        states[gate] = {name: value for name, value in parameters if not is_lazy(value)}
    plain = states.get(None)
    same = [
        gate
        for gate, state in states.items()
        if gate not in (None, "constant")  # which has no parameters
        and plain is not None
        and state.keys() == plain.keys()
        and all(torch.equal(state[name], value) for name, value in plain.items())
    ]
    if same:
        raise InputError(
            f"Expected a model without gates, or a function that builds it with the gate it is "
            f"given; found the same parameters plain and with {same[0]!r}."
        )


def _warn_of_scales(data: TaskData) -> None:
    """Warn if a few columns of features that were left as they are drown the others."""
    if not isinstance(data, Data) or "x" not in data:
        return
    if getattr(data.get("dataset"), "normalize", "none") != "none":
        return
    with suppress(InputError):  # of features that fit refuses, in its own words
        if words := warning_of_scales(loudest(feature_variance(data.x))):
            warn(words)


def guess_of(
    data: TaskData,
    split: int | None = None,
    *,
    loss: LossChoice = None,
    metric: MetricChoice = None,
) -> Guess:
    """Return the best constant answer for the test nodes of a graph."""
    labels, objective = tested_labels(data, split, loss, metric)
    return Guess.of(objective, labels)
