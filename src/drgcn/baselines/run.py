"""Baselines by name, run over seeds, with a record of every run."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import torch
from torch_geometric.data import Data

from drgcn.baselines.base import Baseline
from drgcn.baselines.deepwalk import DeepWalk
from drgcn.baselines.ica import IterativeClassification
from drgcn.baselines.laplacian import LabelPropagation, ManifoldRegularization
from drgcn.baselines.planetoid import Planetoid, PlanetoidI
from drgcn.baselines.semiemb import SemiEmbedding
from drgcn.errors import DrgcnWarning, InputError
from drgcn.studies.records import environment

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


FORMAT = "drgcn baseline"
_FACTS = {
    **{"method": str, "settings": dict, "data": dict, "environment": dict},
    **{"started": str, "seconds": int | float, "seeds": dict},
}


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
class BaselineRecord:
    """The results of one pass, in the form of :class:`drgcn.studies.records.RunRecord` with
    the method and its own settings in place of an experiment.

    Attributes:
        method: Name of the baseline.
        settings: All its settings.
        data: What was loaded, with its content hash.
        environment: Versions and hardware.
        started: When, in UTC.
        seconds: How long all seeds of this record took together.
        seeds: Results by seed.
    """

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
        """Readable, and unique to method, settings, data and seeds."""
        words = [self.data["name"], self.data["split"], self.method, self.identity[:8]]
        seeds = f"seeds-{min(self.seeds)}-{max(self.seeds)}"
        return re.sub(r"[^\w.-]", "-", "-".join([*words, seeds])) + ".json"

    def dumps(self) -> str:
        """JSON with one line per fact and one line per seed."""
        head = {"format": FORMAT, **{name: getattr(self, name) for name in _FACTS}}
        head["seconds"] = round(self.seconds, 3)
        del head["seeds"]
        lines = [f'  "{key}": {json.dumps(value)},' for key, value in head.items()]
        seeds = [f'    "{s}": {json.dumps(asdict(r))}' for s, r in sorted(self.seeds.items())]
        return "\n".join(["{", *lines, '  "seeds": {', ",\n".join(seeds), "  }", "}"]) + "\n"

    @classmethod
    def loads(cls, text: str, source: str = "record") -> BaselineRecord:
        """Read what :meth:`dumps` wrote."""
        try:
            raw = json.loads(text)
            if not isinstance(raw, dict) or raw.pop("format", None) != FORMAT:
                raise ValueError(f"it is not of the format {FORMAT!r}")
            for name, kind in _FACTS.items():
                if not isinstance(raw.get(name), kind):
                    raise ValueError(f"it has no {name}")
            seeds = {int(seed): SeedResult(**result) for seed, result in raw["seeds"].items()}
            if not seeds or not isinstance(raw["data"].get("content_hash"), str):
                raise ValueError("it has no seeds, or its data no content hash")
            return cls(**{**raw, "seeds": seeds})
        except (ValueError, TypeError) as error:
            raise InputError(
                f"Expected a record of a baseline; {source} is none ({error}). Remove or repair "
                f"it."
            ) from None

    def save(self, folder: Path) -> Path:
        """Write the record whole or not at all, and never over another."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.file_name
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            with partial.open("w", encoding="utf-8") as file:
                file.write(self.dumps())
                file.flush()
                os.fsync(file.fileno())
            os.link(partial, path)  # unlike a rename, never replaces a record
        except FileExistsError:
            raise InputError(f"{path} exists already; records are never overwritten.") from None
        finally:
            partial.unlink(missing_ok=True)
        return path


def identity(method: str, settings: dict[str, Any], content_hash: str) -> str:
    """A name for a method with its settings on this very data."""
    facts = json.dumps([method, settings, content_hash], sort_keys=True)
    return hashlib.sha256(facts.encode()).hexdigest()[:12]


def baseline_records(folder: Path) -> dict[Path, BaselineRecord]:
    """Return the records of a folder by their files, with a warning for damaged ones."""
    found = {}
    for path in sorted(folder.glob("*-seeds-*.json")) if folder.is_dir() else []:
        try:
            found[path] = BaselineRecord.loads(path.read_text(encoding="utf-8"), str(path))
        except (InputError, OSError, UnicodeDecodeError) as error:
            warnings.warn(f"left out a damaged record. {error}", DrgcnWarning, stacklevel=2)
    return found


# Of what is known of a dataset, the facts that a record keeps.
_DATA_FACTS = (
    "name",
    "split",
    "split_seed",
    "nodes",
    "edges",
    "features",
    "classes",
    "train",
    "val",
    "test",
    "feature_source",
    "normalize",
    "options",
    "content_hash",
)


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
    """Return all settings as JSON reads them back: tuples become lists."""
    settings = asdict(baseline)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in settings.items()}


@dataclass(frozen=True)
class Summary:
    """Accuracies in percent over seeds.

    Attributes:
        seeds: How many seeds.
        test: Mean on test nodes.
        test_deviation: Standard deviation (n - 1); ``None`` for one seed.
        val: Mean on validation nodes.
    """

    seeds: int
    test: float
    test_deviation: float | None
    val: float

    @classmethod
    def of(cls, results: Mapping[int, SeedResult]) -> Summary:
        """From the results of seeds, one or more."""
        test = [100 * result.test_accuracy for result in results.values()]
        val = [100 * result.val_accuracy for result in results.values()]
        spread = statistics.stdev(test) if len(test) > 1 else None
        return cls(len(test), statistics.fmean(test), spread, statistics.fmean(val))

    def words(self, digits: int) -> str:
        """``67.2 ± 0.5``; of one seed the number alone, which has no deviation."""
        spread = "" if self.test_deviation is None else f" ± {self.test_deviation:.{digits}f}"
        return f"{self.test:.{digits}f}{spread}"
