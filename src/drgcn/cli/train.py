"""``drgcn train``: train one row, or a row with its controls, over many seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from drgcn.cli.options import (
    DataRoot,
    Dataset,
    Device,
    FeatureFile,
    Json,
    ModelGate,
    Normalize,
    NormName,
    Offline,
    Quiet,
    Rule,
    Seen,
    Split,
    Target,
    Threads,
    check_kinds,
    expect_folder,
    read_settings,
    use_device,
    use_threads,
)
from drgcn.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch_geometric.data import Data

    from drgcn.studies.experiment import Experiment

_OWN: dict[str, Any] = {"show_default": "the model's own"}
_SAMPLING = ("graphsage", "fastgcn", "asgcn")

# Rows of --compare.
_COMPARED: Final = (ModelGate.none, ModelGate.dr, ModelGate.static, ModelGate.constant)


def train(
    dataset: Dataset,
    model: Annotated[
        str,
        typer.Option(
            help="The model: gcn, gat, mixhop, chebyshev, mlp, lgcn, geniepath, or one that "
            "trains on samples: graphsage, fastgcn, asgcn."
        ),
    ] = "gcn",
    reweight: Annotated[
        ModelGate,
        typer.Option(
            help="The gate in front of every layer; class-share and variance, which are measured "
            "on the features, in front of the first alone."
        ),
    ] = ModelGate.dr,
    compare: Annotated[
        bool, typer.Option("--compare", help="Run no gate, Dr and both control gates.")
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Metric that chooses the epoch and is reported: accuracy, macro-F1, micro-F1, "
            "ROC-AUC or average-precision; R2, MAE, MSE or RMSE of a regression.",
            show_default="accuracy, micro-F1 or R2",
        ),
    ] = None,
    target: Target = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0.")] = 20,
    split: Split = None,
    norm: Annotated[NormName, typer.Option(help="Norm in front of every layer.")] = NormName.none,
    pre_activation: Annotated[
        bool, typer.Option("--pre-activation", help="Activate before each layer.")
    ] = False,
    epochs: Annotated[int | None, typer.Option(min=1, help="Budget of epochs.", **_OWN)] = None,
    hidden: Annotated[int | None, typer.Option(min=1, help="Hidden width.", **_OWN)] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="Number of layers.", **_OWN)] = None,
    dropout: Annotated[
        float | None, typer.Option(min=0, max=0.999, help="Dropout rate.", **_OWN)
    ] = None,
    lr: Annotated[float | None, typer.Option(min=0, help="Learning rate.", **_OWN)] = None,
    weight_decay: Annotated[
        float | None, typer.Option(min=0, help="L2 coefficient.", **_OWN)
    ] = None,
    rule: Annotated[Rule | None, typer.Option(help="Which epoch is tested.", **_OWN)] = None,
    graphs_per_step: Annotated[
        int | None,
        typer.Option(min=1, help="Training graphs in each step.", show_default="all"),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Nodes in each step, for models that sample.", **_OWN),
    ] = None,
    inductive: Annotated[
        Seen | None,
        typer.Option(
            help="Part of one graph that training sees: training nodes alone, and evaluation the "
            "whole graph (train) or training and evaluated nodes (apart); or all nodes (none).",
            **_OWN,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Argument of the model's class, as in --set out_heads=8."),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            help="Values of a setting, as in --grid lr=0.01,0.05 --grid dropout=0.3,0.5: all "
            "combinations are trained, and the best on validation is chosen.",
        ),
    ] = None,
    normalize: Normalize = None,
    features: FeatureFile = None,
    device: Device = "auto",
    threads: Threads = None,
    data_root: DataRoot = None,
    offline: Offline = False,
    out: Annotated[Path, typer.Option(help="Folder for the run records.")] = Path("runs"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train over many seeds at once and print the table.

    Seeds that already have a record in --out are not trained again, and a run that was cut
    off goes on where it was.

    Settings that are not given, the scaling of features among them, are those the model was
    published with on this dataset.

    With --grid every row is trained with all settings, each with a record of its own, and
    --compare judges the settings that are best on validation, row against row.

    Example: drgcn train cora --split full --compare
    """
    from drgcn.cli.comparing import guess_of, print_comparison, print_grid, run_grids, run_rows
    from drgcn.data import load
    from drgcn.errors import warn
    from drgcn.stability.measure import feature_variance, loudest, warning_of_scales
    from drgcn.studies.experiment import usual_scaling, with_settings

    if compare and reweight not in _COMPARED:
        raise InputError(
            f"Expected --compare with the gates that it compares, {', '.join(_COMPARED)}; found "
            f"--reweight {reweight}. Train it and its control one by one into the same --out."
        )
    use_threads(threads)
    where = use_device(device)
    given: dict[str, Any] = {} if features is None else {"features": str(features)}
    if target is not None:
        given["target"] = target
    normalize = normalize or usual_scaling(dataset, model)
    data = load(dataset, data_root, split=split, normalize=normalize, offline=offline, **given)
    if data.dataset.normalize == "none" and (
        words := warning_of_scales(loudest(feature_variance(data.x)))
    ):
        warn(words)
    usual, asked = (guess_of(data, m) for m in (None, metric))
    options = TrainOptions(
        model=model,
        metric=None if asked.metric == usual.metric else asked.metric,
        gates=_COMPARED if compare else (reweight,),
        norm=norm,
        pre_activation=pre_activation,
        epochs=epochs,
        hidden=hidden,
        layers=layers,
        dropout=dropout,
        lr=lr,
        weight_decay=weight_decay,
        rule=rule,
        graphs_per_step=graphs_per_step,
        batch_size=batch_size,
        inductive=inductive,
        settings=read_settings(set_ or []),
    )
    experiments = options.experiments(data)
    options.expect_possible(data)
    make = _try(experiments, data, options.settings)
    if grid:
        values = _read_grid(grid, experiments[0], make)
        settings = options.settings_of(values)
        rows = [[with_settings(row, own) for own in settings] for row in experiments]
        _try([e for row in rows for e in row], data, options.settings)
        found = run_grids(rows, data, range(seeds), expect_folder(out), where, quiet)
        print_grid(data, experiments[0], settings, found, as_json=json)
    else:
        outcomes = run_rows(experiments, data, range(seeds), expect_folder(out), where, quiet)
        print_comparison(data, outcomes, as_json=json)


@dataclass(frozen=True)
class TrainOptions:
    """Options that decide what is trained; ``None`` leaves a setting to the model's recipe."""

    model: str
    metric: str | None
    gates: tuple[ModelGate, ...]
    norm: NormName
    pre_activation: bool
    epochs: int | None
    hidden: int | None
    layers: int | None
    dropout: float | None
    lr: float | None
    weight_decay: float | None
    rule: Rule | None
    graphs_per_step: int | None
    batch_size: int | None
    inductive: Seen | None
    settings: dict[str, Any]

    @property
    def changes(self) -> dict[str, Any]:
        """Settings of an experiment that were given."""
        changes: dict[str, Any] = {
            "metric": self.metric,
            "epochs": self.epochs,
            "hidden_channels": self.hidden,
            "num_layers": self.layers,
            "dropout": self.dropout,
            "lr": self.lr,
            "weight_decay": self.weight_decay,
            "rule": self.rule and self.rule.value,
            "graphs_per_step": self.graphs_per_step,
            "pre_activation": self.pre_activation,
            "batch_size": self.batch_size,
            "norm": None if self.norm is NormName.none else self.norm.value,
        }
        given = {name: value for name, value in changes.items() if value is not None}
        if self.inductive is not None:  # here "none" is a choice, and not the recipe's
            given["inductive"] = None if self.inductive is Seen.none else self.inductive.value
        return given

    def experiments(self, data: Data) -> list[Experiment]:
        """Return the experiment of each gate: the model's recipe with the given changes."""
        from drgcn.studies.experiment import recipe

        usual = recipe(data.dataset.name, data.dataset.split, self.model, **self.changes)
        if self.hidden is not None and "hidden_channels" in usual.options:
            raise InputError(
                f"Expected --set hidden_channels=[20,20,20], one width per power, for "
                f"{self.model}; found --hidden {self.hidden}."
            )
        usual = replace(usual, options=usual.options | self.settings)
        return [
            replace(usual, reweight=None if gate is ModelGate.none else gate.value)
            for gate in self.gates
        ]

    def settings_of(self, grid: dict[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
        """Return all combinations of the values of a grid."""
        for name in grid.keys() & (self.changes.keys() | self.settings.keys()):
            raise InputError(
                f"Expected {name} in --grid or by its own option; found both. Leave one out."
            )
        return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]

    def expect_possible(self, data: Data) -> None:
        """Refuse options that do not go with the model or the data."""
        samples = self.model in _SAMPLING
        if self.graphs_per_step is not None and "graph" not in data:
            raise InputError(
                f"Expected several graphs for --graphs-per-step; {data.dataset.name} is one "
                f"graph. Leave the option out."
            )
        if "graph" in data and (samples or self.inductive is not None):
            raise InputError(
                f"Expected one graph for {self.model if samples else '--inductive'}; "
                f"{data.dataset.name} holds several, and each part sees its own. Use "
                f"{'gcn or gat' if samples else 'it without that option'}."
            )
        if self.batch_size is not None and not samples:
            raise InputError(
                f"Expected --batch-size with {', '.join(_SAMPLING)}, which train on samples; "
                f"found it with {self.model}, which takes the whole graph. Leave the option out."
            )


def _read_grid(words: list[str], usual: Experiment, make: type) -> dict[str, tuple[Any, ...]]:
    """Read arguments ``name=a,b,c``: values of settings, of which all combinations are trained.

    Args:
        words: The arguments.
        usual: The experiment whose settings are varied.
        make: The model's class.
    """
    from drgcn.studies.experiment import read_values, values_by_name

    named = values_by_name(words, "--grid", "name=a,b,c", usual, make)
    return {
        name: read_values(name, kind, values, f"--grid {name}={values}")
        for name, (kind, values) in named.items()
    }


def _try(
    experiments: Sequence[Experiment], data: Data, settings: dict[str, Any]
) -> type[torch.nn.Module]:
    """Build every model and sample once: a wrong setting is found before any work is done.

    Returns:
        The class of the models.
    """
    from drgcn.cli.comparing import try_a_step
    from drgcn.studies.build import build
    from drgcn.studies.run import pass_of

    model = build(experiments[0], data)
    for experiment in {pass_of(e).identity(""): e for e in experiments}.values():
        model = build(experiment, data)
        check_kinds(type(model), settings)
        try_a_step(model, data.num_features)
    return type(model)
