"""Runs a baseline over seeds: those that no record has yet, and records them."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from drgcn.baselines.baseline import Baseline
from drgcn.baselines.record import BaselineRecord, SeedResult, baseline_records, identity
from drgcn.errors import InputError
from drgcn.studies.environment import environment

_DATA_FACTS = (
    *("name", "split", "split_seed", "nodes", "edges", "features", "classes"),
    *("train", "val", "test", "feature_source", "normalize", "options", "content_hash"),
)


def run_baseline(
    baseline: Baseline,
    data: Data,
    seeds: Sequence[int],
    out: Path,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[int, SeedResult]:
    """Results for every seed, from the records in ``out`` where they exist already.

    A method without chance is run for the first seed alone.

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
    name = identity(baseline.name, settings, data.dataset.content_hash)
    known: dict[int, SeedResult] = {}
    for record in baseline_records(out).values():
        if record.identity == name:
            known |= record.seeds
    missing = [seed for seed in wanted if seed not in known]
    if missing:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        begun = time.monotonic()
        results = {}
        for done, seed in enumerate(missing):
            if progress is not None:
                progress(done, len(missing))
            results[seed] = _one_seed(baseline, data, seed)
        facts = data.dataset.to_dict()
        BaselineRecord(
            method=baseline.name,
            settings=settings,
            data={key: facts[key] for key in _DATA_FACTS} | {"metric": "accuracy"},
            environment=environment(torch.device("cpu")),
            started=now,
            seconds=time.monotonic() - begun,
            seeds=results,
        ).save(out)
        known |= results
    return {seed: known[seed] for seed in wanted}


def _one_seed(baseline: Baseline, data: Data, seed: int) -> SeedResult:
    prediction = baseline.predict(data, seed)
    right = prediction.scores.argmax(dim=1) == data.y

    def share(mask: torch.Tensor) -> float:
        return round(float(right[mask].double().mean()), 6)

    return SeedResult(share(data.test_mask), share(data.val_mask), prediction.chosen)


def plain_settings(baseline: Baseline) -> dict[str, Any]:
    """All settings, as JSON will give them back."""
    settings = asdict(baseline)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in settings.items()}
