"""Baselines by name, run over seeds, with a record of every run."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import torch
from torch_geometric.data import Data

from drgcn.baselines.base import Baseline
from drgcn.baselines.deepwalk import DeepWalk
from drgcn.baselines.ica import IterativeClassification
from drgcn.baselines.laplacian import (
    InductiveManifoldRegularization,
    InductiveSemiEmbedding,
    LabelPropagation,
    ManifoldRegularization,
    SemiEmbedding,
)
from drgcn.baselines.networks import DualPrimal, GraphSGAN, MoNet
from drgcn.baselines.planetoid import Planetoid, PlanetoidI, PlanetoidScript
from drgcn.data.assemble import RECORDED_FACTS
from drgcn.errors import InputError
from drgcn.records import BaselineRecord, BaselineResult, baseline_identity, environment
from drgcn.stats import Summary

#: In the order of the paper's table; of a row, the quoted form first.
METHODS: Final[Mapping[str, type[Baseline]]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            InductiveManifoldRegularization,
            ManifoldRegularization,
            InductiveSemiEmbedding,
            SemiEmbedding,
            LabelPropagation,
            DeepWalk,
            IterativeClassification,
            PlanetoidScript,
            Planetoid,
            PlanetoidI,
            GraphSGAN,
            MoNet,
            DualPrimal,
        )
    }
)

# Seconds after which what is done is written as a record of its own.
_SAVE_AFTER: Final = 300.0


def method(name: str) -> Baseline:
    """Return the baseline of a name, with its default settings."""
    if name not in METHODS:
        raise InputError(
            f"Expected a method out of {', '.join(METHODS)}; found {name!r}. Use one of them."
        )
    return METHODS[name]()


def baseline_records(folder: Path) -> dict[Path, BaselineRecord]:
    """Return the records of a folder by their files, with a warning for damaged ones."""
    return BaselineRecord.read_folder(folder)


def run_baseline(
    baseline: Baseline,
    data: Data,
    seeds: Sequence[int],
    out: Path,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[int, BaselineResult]:
    """Return results for every seed, from the records in ``out`` where they exist already.

    A method without chance is run for the first seed alone. What takes long is written in
    several records, and so is what was done before an error: a run that was stopped goes on
    where it was.

    Args:
        baseline: The method with its settings.
        data: A graph from :func:`drgcn.load`, scaled as ``baseline.scaling`` says.
        seeds: The seeds wanted.
        out: Folder of the records.
        progress: Called with the seeds done and the seeds to do.
    """
    if not seeds:
        raise InputError("Expected at least one seed; found none. Ask for some.")
    wanted = list(seeds)[:1] if baseline.deterministic else list(seeds)
    settings = plain_settings(baseline)
    name = baseline_identity(baseline.name, settings, data.dataset.content_hash)
    known: dict[int, BaselineResult] = {}
    for record in BaselineRecord.read_folder(out).values():
        if record.identity == name:
            known |= record.seeds
    missing = [seed for seed in wanted if seed not in known]
    facts = data.dataset.to_dict()
    device = data.x.device if baseline.follows_data else torch.device("cpu")
    results: dict[int, BaselineResult] = {}
    started, begun = _now(), time.monotonic()

    def save() -> None:
        record = BaselineRecord(
            method=baseline.name,
            settings=settings,
            data={key: facts[key] for key in RECORDED_FACTS} | {"metric": "accuracy"},
            environment=environment(device),
            started=started,
            seconds=time.monotonic() - begun,
            seeds=results,
        )
        known.update(record.save_or_find(out)[1].seeds)

    try:
        for done, seed in enumerate(missing):
            # Long runs leave a record now and then: one that is killed loses little.
            if results and time.monotonic() - begun > _SAVE_AFTER:
                save()
                results, started, begun = {}, _now(), time.monotonic()
            if progress is not None:
                progress(done, len(missing))
            results[seed] = _one_seed(baseline, data, seed)
    finally:
        if results:
            save()
    return {seed: known[seed] for seed in wanted}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _one_seed(baseline: Baseline, data: Data, seed: int) -> BaselineResult:
    prediction = baseline.predict(data, seed)
    right = prediction.scores.argmax(dim=1).to(data.y.device) == data.y

    def share(mask: torch.Tensor) -> float:
        return round(float(right[mask].double().mean()), 6)

    return BaselineResult(share(data.test_mask), share(data.val_mask), prediction.chosen)


def plain_settings(baseline: Baseline) -> dict[str, Any]:
    """Return all settings as JSON reads them back: tuples become lists."""
    settings = asdict(baseline)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in settings.items()}


def accuracies(results: Mapping[int, BaselineResult]) -> tuple[Summary, Summary]:
    """Return the accuracy in percent over seeds, on test nodes and on validation nodes."""
    return (
        Summary.of([100 * result.test_accuracy for result in results.values()]),
        Summary.of([100 * result.val_accuracy for result in results.values()]),
    )
