"""``drgcn baselines``: methods without graph convolutions, over seeds."""

from __future__ import annotations

import json as jsonlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from drgcn.cli.options import (
    DataRoot,
    Dataset,
    Json,
    Normalize,
    Offline,
    Split,
    Threads,
    use_folder,
    use_threads,
)


def baselines(
    dataset: Dataset,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Which to run, more than once if need be: manireg, semiemb, label-propagation, "
            "deepwalk, ica, planetoid-t, planetoid-i.",
            show_default="all",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0.")] = 20,
    split: Split = None,
    normalize: Normalize = None,
    threads: Threads = None,
    data_root: DataRoot = None,
    offline: Offline = False,
    out: Annotated[Path, typer.Option(help="Folder for the records.")] = Path("runs/baselines"),
    json: Json = False,
) -> None:
    """Run the methods that the paper quotes without running them, and print their accuracies.

    Seeds that already have a record in --out are not run again. Methods without chance are run
    once. Features are scaled as each method wants them, if --normalize does not say otherwise.

    Example: drgcn baselines cora --method label-propagation --method ica
    """
    from drgcn.baselines.run import METHODS, accuracies, run_baseline
    from drgcn.baselines.run import method as baseline_named
    from drgcn.data import load

    use_threads(threads)
    chosen = [baseline_named(name) for name in method or METHODS]
    folder = use_folder(out)
    found: list[dict[str, Any]] = []
    for baseline in chosen:
        scaled = normalize or baseline.scaling
        data = load(dataset, data_root, split=split, normalize=scaled, offline=offline)

        def show(done: int, of: int, name: str = baseline.name) -> None:
            print(f"{name}: seed {done + 1} of {of}", file=sys.stderr)

        results = run_baseline(baseline, data, range(seeds), folder, progress=show)
        test, val = accuracies(results)
        found.append(
            {
                "method": baseline.name,
                "settings": asdict(baseline),
                "seeds": test.seeds,
                "test": test.mean,
                "test_deviation": test.std if test.seeds > 1 else None,
                "val": val.mean,
            }
        )
        if not json:
            print(f"{baseline.name:<18} {test.words(2)} (n={test.seeds})", flush=True)
    if json:
        print(jsonlib.dumps({"dataset": data.dataset.to_dict(), "rows": found}))
