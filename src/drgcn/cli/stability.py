"""``drgcn stability``: spread of features, and what reweighting could do about it."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from drgcn.cli.options import (
    DataRoot,
    Dataset,
    FeatureFile,
    Json,
    Normalize,
    Offline,
    ProgressLine,
    Quiet,
    Split,
    Target,
    Threads,
    expect_file,
    use_threads,
)


def stability(
    dataset: Dataset,
    target: Target = None,
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
    quiet: Quiet = False,
) -> None:
    """Print how far features spread, what reweighting could do about it, and what the records say.

    With --train also what a Dr-GCN makes of them: its gate by dimension, and K by epoch.

    Example: drgcn stability wine --train --html wine.html
    """
    from drgcn.data import load
    from drgcn.studies.advice.advice import advise
    from drgcn.studies.advice.learnt_gates import learn_gates
    from drgcn.studies.advice.page import damping_words, shown, write_page
    from drgcn.studies.comparison import k_words
    from drgcn.studies.report.measurements import share_words

    if html is not None:
        expect_file(html, "--html")
    use_threads(threads)
    options: dict[str, Any] = {} if features is None else {"features": str(features)}
    if target is not None:
        options["target"] = target
    data = load(dataset, data_root, split=split, normalize=normalize, offline=offline, **options)
    advice = advise(data)
    learnt = []
    if train:
        with ProgressLine("training", quiet) as line:
            learnt = learn_gates(
                data,
                seeds,
                epochs,
                lambda done, of: line.show(f"{done} of {of} epochs", done / of),
            )
    scaled = {"row": "row-normalised", "standard": "standardised", "none": "unscaled"}
    title = f"{data.dataset.name}, {scaled[data.dataset.normalize]} features"
    if html is not None:
        write_page(advice, html, title=title, learnt=learnt)
    if json:
        found = {"dataset": data.dataset.to_dict(), **advice.to_dict()}
        trained = {"trained": [one.to_dict() for one in learnt]} if train else {}
        print(jsonlib.dumps(found | trained))
        return
    print(f"{title}: {advice.verdict}\n")
    print("\n".join(f"- {line}" for line in advice.lines + advice.gate_study), end="\n\n")
    rows = shown(advice)
    width = max(len(label) for label, _ in rows)
    print("\n".join(f"{label:<{width}}  {value}" for label, value in rows))
    for one in learnt:
        label = f"K per layer, seed {one.seed}"
        stuck = f"stuck {share_words(one.saturation)}"
        print(f"{label:<{width}}  {k_words(one.k)}; {stuck}; epoch {one.best_epoch}")
    if learnt:
        print(f"\n{damping_words(advice.variance, learnt)}")
    for words in advice.warnings:
        print(f"\nwarning: {words}")
    if html is not None:
        print(f"\n{html}")
