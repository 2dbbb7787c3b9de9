"""``drgcn baselines``: methods that the paper quotes, over seeds."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn.cli.options import (
    DataRoot,
    Device,
    Json,
    Normalize,
    Offline,
    ProgressLine,
    Quiet,
    Split,
    Threads,
    expect_folder,
    use_device,
    use_threads,
)

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from drgcn.baselines.base import Baseline


def baselines(
    datasets: Annotated[
        list[str],
        typer.Argument(help="Datasets by name (see `drgcn data list`), or paths to your own."),
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Which to run, more than once if need be: manireg-inductive, manireg, "
            "semiemb-inductive, semiemb, label-propagation, deepwalk, ica, planetoid-t-script, "
            "planetoid-t, planetoid-i, graphsgan, monet, dpfcnn.",
            show_default="all",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0.")] = 20,
    split: Split = None,
    normalize: Normalize = None,
    device: Device = "cpu",
    threads: Threads = None,
    data_root: DataRoot = None,
    offline: Offline = False,
    out: Annotated[Path, typer.Option(help="Folder for the records.")] = Path("runs/baselines"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the methods that the paper quotes without running them, and print their accuracies.

    Seeds that already have a record in --out are not run again, so a run that was stopped goes on
    when the same command is given once more. Methods without chance are run once. Features are
    scaled as each method wants them, if --normalize does not say otherwise. graphsgan, monet and
    dpfcnn use --device, the others the CPU. With --json, one line for each dataset.

    Example: drgcn baselines cora --method label-propagation --method ica
    """
    from drgcn.baselines.run import METHODS
    from drgcn.baselines.run import method as baseline_named
    from drgcn.data import load

    use_threads(threads)
    place = use_device(device)
    chosen = [baseline_named(name) for name in method or METHODS]
    folder = expect_folder(out)
    for dataset in datasets[1:]:  # a wrong name is told before the work on the others
        load(dataset, data_root, split=split, normalize=normalize, offline=offline)
    with ProgressLine("baselines", quiet, resumes=True) as line:
        for dataset in datasets:
            if len(datasets) > 1 and not json:
                print(f"{dataset}:", flush=True)
            rows = []
            for baseline in chosen:
                scaled = normalize or baseline.scaling
                data = load(dataset, data_root, split=split, normalize=scaled, offline=offline)
                facts = data.dataset.to_dict()
                rows.append(_row(baseline, data.to(place), range(seeds), folder, line, json))
            if json:
                print(jsonlib.dumps({"dataset": facts, "rows": rows}))
    if not json:
        print("test accuracy in %, ± standard deviation over n seeds")


def _row(
    baseline: Baseline, data: Data, seeds: range, folder: Path, line: ProgressLine, json: bool
) -> dict[str, Any]:
    """Run one baseline on one dataset, print its accuracy but with JSON, and return it."""
    from drgcn.baselines.run import accuracies, run_baseline

    def show(done: int, of: int) -> None:
        line.show(f"seed {done + 1} of {of}", done / of, baseline.name)

    test, val = accuracies(run_baseline(baseline, data, seeds, folder, progress=show))
    if not json:
        print(f"{baseline.name:<18} {test.words(2)} (n={test.seeds})", flush=True)
    return {
        "method": baseline.name,
        "settings": asdict(baseline),
        "seeds": test.seeds,
        "test": test.mean,
        "test_deviation": test.std if test.seeds > 1 else None,
        "val": val.mean,
    }
