"""Baselines by name, run over seeds, with a record of every run."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

import torch
from torch_geometric.data import Data

from drgcn.baselines.base import Baseline
from drgcn.baselines.deepwalk import DeepWalk
from drgcn.baselines.ica import IterativeClassification
from drgcn.baselines.laplacian import LabelPropagation, ManifoldRegularization
from drgcn.baselines.planetoid import Planetoid, PlanetoidI
from drgcn.baselines.semiemb import SemiEmbedding
from drgcn.data.assemble import RECORDED_FACTS
from drgcn.errors import InputError
from drgcn.records import (
    Record,
    dump_facts,
    environment,
    expect_fields,
    identity_of,
    readable_name,
    seed_number,
)
from drgcn.stats import Summary

#: In the order of the paper's table.
METHODS: Final[Mapping[str, type[Baseline]]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            ManifoldRegularization,
            SemiEmbedding,
            LabelPropagation,
            DeepWalk,
            IterativeClassification,
            Planetoid,
            PlanetoidI,
        )
    }
)


def method(name: str) -> Baseline:
    """Return the baseline of a name, with its default settings."""
    if name not in METHODS:
        raise InputError(
            f"Expected a method out of {', '.join(METHODS)}; found {name!r}. Use one of them."
        )
    return METHODS[name]()


@dataclass(frozen=True)
class SeedResult:
    """Accuracies of one seed.

    Attributes:
        test_accuracy: Accuracy on the test nodes, between 0 and 1.
        val_accuracy: The same on the validation nodes.
        chosen: Settings that were picked by validation accuracy.
    """

    test_accuracy: float
    val_accuracy: float
    chosen: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BaselineRecord(Record):
    """The results of one pass: a method with its settings in place of an experiment.

    Attributes:
        method: Name of the baseline.
        settings: All its settings.
        data: What was loaded, with its content hash.
        environment: Versions and hardware.
        started: When, in UTC.
        seconds: How long all seeds of this record took together.
        seeds: Results by seed.
    """

    kind: ClassVar = "a record of a baseline"
    format: ClassVar = "drgcn baseline"

    method: str
    settings: dict[str, Any]
    data: dict[str, Any]
    environment: dict[str, Any]
    started: str
    seconds: float
    seeds: dict[int, SeedResult]

    @property
    def identity(self) -> str:
        """The method with these settings on this very data."""
        return identity(self.method, self.settings, self.data["content_hash"])

    @property
    def file_name(self) -> str:
        """Name of its file: readable, and unique to method, settings, data and seeds."""
        seeds = f"seeds-{min(self.seeds)}-{max(self.seeds)}"
        words = [self.data["name"], self.data["split"], self.method, self.identity[:8]]
        return readable_name([*words, seeds])

    def dumps(self) -> str:
        """Return the record as JSON, with one line per seed."""
        facts = {"format": self.format} | {f.name: getattr(self, f.name) for f in fields(self)}
        facts["seconds"] = round(self.seconds, 3)
        facts["seeds"] = {seed: asdict(result) for seed, result in sorted(self.seeds.items())}
        return dump_facts(facts, by_line="seeds")

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> BaselineRecord:
        """Return the record with the facts of a file, checked by name, type and range."""
        expect_fields(cls, facts, "it")
        for seed, result in facts["seeds"].items():
            expect_fields(SeedResult, result, f"seed {seed}")
            for name in ("test_accuracy", "val_accuracy"):
                if not 0 <= result[name] <= 1:
                    raise ValueError(f"seed {seed} has {result[name]} as {name}, no share")
        seeds = {seed_number(seed): SeedResult(**one) for seed, one in facts["seeds"].items()}
        for name in ("name", "split", "content_hash"):
            if not isinstance(facts["data"].get(name), str):
                raise ValueError(f"its data has no {name}")
        if not seeds or facts["seconds"] < 0:
            raise ValueError("it has no seeds, or took less than no time")
        return cls(**{**facts, "seeds": seeds})


def identity(method: str, settings: dict[str, Any], content_hash: str) -> str:
    """A name for a method with its settings on this very data."""
    return identity_of([method, settings, content_hash])[:12]


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
) -> dict[int, SeedResult]:
    """Return results for every seed, from the records in ``out`` where they exist already.

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
    for record in BaselineRecord.read_folder(out).values():
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
            data={key: facts[key] for key in RECORDED_FACTS} | {"metric": "accuracy"},
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
    """Return all settings as JSON reads them back: tuples become lists."""
    settings = asdict(baseline)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in settings.items()}


def accuracies(results: Mapping[int, SeedResult]) -> tuple[Summary, Summary]:
    """Return the accuracy in percent over seeds, on test nodes and on validation nodes."""
    return (
        Summary.of([100 * result.test_accuracy for result in results.values()]),
        Summary.of([100 * result.val_accuracy for result in results.values()]),
    )
