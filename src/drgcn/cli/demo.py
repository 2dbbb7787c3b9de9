"""``drgcn demo``: Dr on data that needs no download; ``drgcn doctor``: a check of the machine."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn.cli.options import DataRoot, Json, Quiet, Threads, use_threads

if TYPE_CHECKING:
    from drgcn.data import DatasetInfo
    from drgcn.studies.experiment import Experiment

DATASETS = ("digits", "planted")
# Said on the terminal and on the page: a verdict without it promises too much.
_CAVEAT = (
    "planted is synthetic and built so that reweighting can help; digits is real. With so few "
    "epochs the plain model is not yet at its best."
)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for records and report.")] = Path(
        "demo-output"
    ),
    seeds: Annotated[int, typer.Option(min=2, help="How many seeds.")] = 20,
    epochs: Annotated[int, typer.Option(min=1, help="Budget of epochs.")] = 150,
    threads: Threads = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare GCN with and without Dr on one real and one synthetic graph.

    `digits` is a real table made a graph: its raw columns differ in scale, and labels are few.
    `planted` is synthetic: loud dimensions that say nothing and quiet ones that tell the class,
    the situation that dimensional reweighting is meant for. The budget of epochs is short; the
    plain model gains some more with a longer one.
    """
    from rich.console import Console

    from drgcn.cli.comparing import comparison, guess_of, print_comparison, run_rows
    from drgcn.cli.options import use_device, use_folder
    from drgcn.data import load
    from drgcn.studies.records import load_records
    from drgcn.studies.report.contents import write_report

    use_threads(threads)
    device = use_device("cpu")
    use_folder(out)
    comparisons = []
    for name in DATASETS:
        data = load(name)
        rows = demo_experiments(data.dataset, epochs)
        outcomes = run_rows(rows, data, range(seeds), out, device, quiet)
        if json:
            comparisons.append(comparison(data, outcomes, guess_of(data, rows[0].metric)))
        else:
            print_comparison(data, outcomes, as_json=False)
    page = write_report(
        load_records(out), out / "report.html", title="drgcn demo", caveat=_CAVEAT, folder=out
    )
    if json:
        found = {"comparisons": comparisons, "caveat": _CAVEAT, "report": str(page)}
        print(jsonlib.dumps(found))
        return
    Console().print(f"\n{_CAVEAT}", highlight=False)
    Console().print(f"\nReport: [bold]{page}[/bold]", soft_wrap=True)


def demo_experiments(info: DatasetInfo, epochs: int) -> list[Experiment]:
    """Return experiments of GCN without a gate, with Dr, and with both control gates."""
    from drgcn.studies.experiment import Experiment

    return [
        Experiment(info.name, info.split, reweight=gate, hidden_channels=32, epochs=epochs)
        for gate in (None, "dr", "static", "constant")
    ]


def doctor(data_root: DataRoot = None, json: Json = False) -> None:
    """Show versions, devices and data, and check that seeds give the same numbers twice."""
    import torch

    from drgcn.data.catalog import describe, names
    from drgcn.data.downloader import data_root as resolve
    from drgcn.data.downloader import files_of
    from drgcn.records import device_name, environment

    root = resolve(data_root)
    devices = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    present = {
        name: all((root / file.path).is_file() for file in files_of(describe(name), root))
        for name in names()
    }
    facts: dict[str, Any] = {
        "environment": environment(torch.device("cpu")),
        "devices": {name: device_name(torch.device(name)) for name in devices},
        "data_root": str(root),
        "data_found": [name for name, here in present.items() if here],
        "data_missing": [name for name, here in present.items() if not here],
        "deterministic": {name: _repeatable(torch.device(name)) for name in devices},
    }
    if json:
        print(jsonlib.dumps(facts))
    else:
        for key, value in facts["environment"].items():
            print(f"{key:<16} {value}")
        for name, words in facts["devices"].items():
            kept = facts["deterministic"][name]
            print(f"{name:<16} {words}: seed 2 alone {_words(kept)} seed 2 among others")
        print(f"{'data root':<16} {root}")
        print(f"{'data found':<16} {', '.join(facts['data_found'])}")
        print(f"{'data missing':<16} {', '.join(facts['data_missing']) or 'none'}")
    if not facts["deterministic"]["cpu"]:
        raise typer.Exit(1)


def _repeatable(device: Any) -> bool:
    """Return whether a seed has the same weights, to the bit, alone and among others."""
    import torch

    from drgcn.data import load
    from drgcn.nn import GCN
    from drgcn.training import fit

    data = load("planted", nodes=300, labels_per_class=10, val_per_class=20)

    def weights(seeds: list[int]) -> list[torch.Tensor]:
        result = fit(
            lambda: GCN(data.num_features, 16, data.dataset.classes, reweight="dr"),
            data,
            seeds,
            epochs=20,
            device=device,
        )
        return list(result.models[seeds.index(2)].state_dict().values())

    return all(map(torch.equal, weights([2]), weights([0, 2, 5])))


def _words(equal: bool) -> str:
    return "equals, to the bit," if equal else "differs in the last bits from"
