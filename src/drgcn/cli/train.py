"""``drgcn train``: train one row, or a row with its controls, over many seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from drgcn.cli.options import (
    DataRoot,
    Device,
    Gate,
    Json,
    NormName,
    Offline,
    Rule,
    Threads,
    use_device,
    use_folder,
    use_threads,
)
from drgcn.errors import InputError


def train(
    dataset: Annotated[
        str,
        typer.Argument(help="A dataset's name (see `drgcn data list`), or a path to your own."),
    ],
    model: Annotated[str, typer.Option(help="The model: gcn.")] = "gcn",
    reweight: Annotated[Gate, typer.Option(help="The gate in front of every layer.")] = Gate.dr,
    compare: Annotated[
        bool, typer.Option("--compare", help="Run no gate, Dr and both control gates.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0.")] = 20,
    split: Annotated[
        str | None, typer.Option(help="Split.", show_default="the first listed")
    ] = None,
    norm: Annotated[NormName, typer.Option(help="Norm in front of every layer.")] = NormName.none,
    pre_activation: Annotated[
        bool, typer.Option("--pre-activation", help="Activate before each layer.")
    ] = False,
    epochs: Annotated[int, typer.Option(min=1, help="Budget of epochs.")] = 800,
    hidden: Annotated[int, typer.Option(min=1, help="Hidden width.")] = 64,
    layers: Annotated[int, typer.Option(min=1, help="Number of layers.")] = 2,
    dropout: Annotated[float, typer.Option(min=0, max=0.999, help="Dropout rate.")] = 0.5,
    lr: Annotated[float, typer.Option(min=0, help="Learning rate of Adam.")] = 0.01,
    weight_decay: Annotated[float, typer.Option(min=0, help="L2 coefficient.")] = 5e-4,
    rule: Annotated[Rule, typer.Option(help="Which epoch is tested.")] = Rule.best_validation,
    normalize: Annotated[
        str | None,
        typer.Option(help="Features: row, standard or none.", show_default="the dataset's own"),
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="Feature file of corar or citeseerr: .npy, .npz, .pkl.")
    ] = None,
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

    Example: drgcn train cora --split full --compare
    """
    if model != "gcn":
        raise InputError(f"Expected --model gcn; found {model!r}. More models are to come.")
    from drgcn.cli.comparing import print_comparison, run_rows
    from drgcn.data import load
    from drgcn.studies.experiment import Experiment

    use_threads(threads)
    where = use_device(device)
    options: dict[str, Any] = {} if features is None else {"features": str(features)}
    data = load(dataset, data_root, split=split, normalize=normalize, offline=offline, **options)
    gates = [Gate.none, Gate.dr, Gate.static, Gate.constant] if compare else [reweight]
    experiments = [
        Experiment(
            dataset=data.dataset.name,
            split=data.dataset.split,
            model=model,
            reweight=None if gate is Gate.none else gate.value,
            norm=None if norm is NormName.none else norm.value,
            pre_activation=pre_activation,
            hidden_channels=hidden,
            num_layers=layers,
            dropout=dropout,
            epochs=epochs,
            rule=rule.value,
            lr=lr,
            weight_decay=weight_decay,
        )
        for gate in gates
    ]
    outcomes = run_rows(experiments, data, range(seeds), use_folder(out), where)
    print_comparison(data, outcomes, as_json=json)
