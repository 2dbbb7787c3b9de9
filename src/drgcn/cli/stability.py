"""``drgcn stability``: what the spread of features leaves Dr to do."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drgcn.cli.options import (
    DataRoot,
    Dataset,
    FeatureFile,
    Json,
    Normalize,
    Offline,
    Split,
    Threads,
    use_threads,
)
from drgcn.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data


def stability(
    dataset: Dataset,
    split: Split = None,
    normalize: Normalize = None,
    features: FeatureFile = None,
    train: Annotated[
        bool, typer.Option("--train", help="Train a Dr-GCN too, and show its gates.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of --train.")] = 3,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of --train.")] = 200,
    threads: Threads = None,
    data_root: DataRoot = None,
    offline: Offline = False,
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page here.")] = None,
    json: Json = False,
) -> None:
    """Print how far features spread, what reweighting could do about it, and what the records say.

    Example: drgcn stability wine --html wine.html
    """
    from drgcn.data import load
    from drgcn.studies.advice import advise
    from drgcn.studies.advice_page import shown, write_page
    from drgcn.studies.comparison import k_words

    if html is not None and html.is_dir():
        raise InputError(f"Expected --html to be a file; {html} is a folder.")
    use_threads(threads)
    options: dict[str, Any] = {} if features is None else {"features": str(features)}
    data = load(dataset, data_root, split=split, normalize=normalize, offline=offline, **options)
    advice = advise(data)
    learnt = _learnt(data, seeds, epochs) if train else []
    if html is not None:
        title = f"{data.dataset.name}: {data.dataset.normalize} features"
        write_page(advice, html, title=title, gates=[run["s"] for run in learnt])
    if json:
        found = {"dataset": data.dataset.to_dict(), **advice.to_dict()}
        print(jsonlib.dumps(found | ({"trained": learnt} if train else {})))
        return
    rows = shown(advice)
    width = max(len(label) for label, _ in rows)
    print("\n".join(f"{label:<{width}}  {value}" for label, value in rows))
    for run in learnt:
        label = f"K per layer, seed {run['seed']}"
        print(f"{label:<{width}}  {k_words(run['k'])}")
    print(f"\n{advice.paragraph}")
    for words in advice.warnings:
        print(f"\nwarning: {words}")
    if html is not None:
        print(f"\n{html}")


def _learnt(data: Data, seeds: int, epochs: int) -> list[dict[str, Any]]:
    """For each seed K and saturation of every layer, and the vector of the first one."""
    import torch

    from drgcn.studies.building import build
    from drgcn.studies.layer_stability import layer_saturation, layer_stability
    from drgcn.studies.recipes import recipe
    from drgcn.training import fit
    from drgcn.training.task import tested_inputs

    usual = recipe(data.dataset.name, data.dataset.split, reweight="dr", epochs=epochs)
    result = fit(lambda: build(usual, data), data, range(seeds), epochs=epochs)
    found = []
    for seed, model in enumerate(result.models):
        inputs = tested_inputs(data, model.prepare, torch.device("cpu"))  # type: ignore[arg-type]
        with torch.no_grad():
            _, s, _ = next(iter(model.layers(*inputs)))  # type: ignore[operator]
        found.append(
            {
                "seed": seed,
                "k": layer_stability(model, inputs),
                "saturation": layer_saturation(model, inputs),
                # Several graphs have a vector each: the mean of them is shown.
                "s": [round(value, 6) for value in s.reshape(-1, s.shape[-1]).mean(0).tolist()],
            }
        )
    return found
