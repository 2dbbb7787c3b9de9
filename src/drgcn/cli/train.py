"""``drgcn train``: train one row, or a row with its controls, over many seeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from drgcn.cli.options import (
    DataRoot,
    Dataset,
    Device,
    FeatureFile,
    Gate,
    Json,
    Normalize,
    NormName,
    Offline,
    Rule,
    Seen,
    Split,
    Threads,
    check_kinds,
    read_settings,
    try_a_step,
    use_device,
    use_threads,
)
from drgcn.cli.writable import use_folder
from drgcn.errors import InputError

_OWN: dict[str, Any] = {"show_default": "the model's own"}
_SAMPLING = ("graphsage", "fastgcn", "asgcn")


def train(
    dataset: Dataset,
    model: Annotated[
        str,
        typer.Option(
            help="The model: gcn, gat, mixhop, chebyshev, mlp, lgcn, geniepath, or one that "
            "trains on samples: graphsage, fastgcn, asgcn."
        ),
    ] = "gcn",
    reweight: Annotated[Gate, typer.Option(help="The gate in front of every layer.")] = Gate.dr,
    compare: Annotated[
        bool, typer.Option("--compare", help="Run no gate, Dr and both control gates.")
    ] = False,
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
            help="Train on training nodes alone and evaluate on the whole graph (train), or on "
            "training nodes and those looked at (apart); or see all (none).",
            **_OWN,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Argument of the model's class, as in --set out_heads=8."),
    ] = None,
    normalize: Normalize = None,
    features: FeatureFile = None,
    device: Device = "auto",
    threads: Threads = None,
    data_root: DataRoot = None,
    offline: Offline = False,
    out: Annotated[Path, typer.Option(help="Folder for the run records.")] = Path("runs"),
    json: Json = False,
) -> None:
    """Train over many seeds at once and print the table.

    Seeds that already have a record in --out are not trained again, and a run that was cut
    off goes on where it was.

    Settings that are not given are those the model was published with on this dataset, the scaling
    of features among them.

    Example: drgcn train cora --split full --compare
    """
    from drgcn.cli.comparing import print_comparison, run_rows
    from drgcn.data import load
    from drgcn.studies.experiment import recipe, usual_scaling
    from drgcn.studies.run import build

    use_threads(threads)
    where = use_device(device)
    options: dict[str, Any] = {} if features is None else {"features": str(features)}
    normalize = normalize or usual_scaling(dataset, model)
    data = load(dataset, data_root, split=split, normalize=normalize, offline=offline, **options)
    gates = [Gate.none, Gate.dr, Gate.static, Gate.constant] if compare else [reweight]
    changes = {
        "epochs": epochs,
        "hidden_channels": hidden,
        "num_layers": layers,
        "dropout": dropout,
        "lr": lr,
        "weight_decay": weight_decay,
        "rule": rule and rule.value,
        "graphs_per_step": graphs_per_step,
        "pre_activation": pre_activation,
        "batch_size": batch_size,
        "norm": None if norm is NormName.none else norm.value,
    }
    given: dict[str, Any] = {k: value for k, value in changes.items() if value is not None}
    if inductive is not None:
        given["inductive"] = None if inductive is Seen.none else inductive.value
    usual = recipe(data.dataset.name, data.dataset.split, model, **given)
    if hidden is not None and "hidden_channels" in usual.options:
        raise InputError(
            f"Expected --set hidden_channels=[20,20,20], one width per power, for {model}; found "
            f"--hidden {hidden}."
        )
    if graphs_per_step is not None and "graph" not in data:
        raise InputError(
            f"Expected several graphs for --graphs-per-step; {data.dataset.name} is one graph. "
            f"Leave the option out."
        )
    if "graph" in data and (model in _SAMPLING or inductive is not None):
        raise InputError(
            f"Expected one graph for {model if model in _SAMPLING else '--inductive'}; "
            f"{data.dataset.name} holds several, and each part sees its own. Use "
            f"{'gcn or gat' if model in _SAMPLING else 'it without that option'}."
        )
    if batch_size is not None and model not in _SAMPLING:
        raise InputError(
            f"Expected --batch-size with {', '.join(_SAMPLING)}, which train on samples; found "
            f"it with {model}, which takes the whole graph. Leave the option out."
        )
    settings = read_settings(set_ or [])
    usual = replace(usual, options={**usual.options, **settings})
    experiments = [
        replace(usual, reweight=None if gate is Gate.none else gate.value) for gate in gates
    ]
    for experiment in experiments:
        # A wrong setting is found before any work is done.
        built = build(experiment, data)
        check_kinds(type(built), settings)
        try_a_step(built, data.num_features)
    outcomes = run_rows(experiments, data, range(seeds), use_folder(out), where)
    print_comparison(data, outcomes, as_json=json)
