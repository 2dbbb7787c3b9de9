"""Run records: one JSON file per pass, written once and never changed."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import re
import warnings
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import drgcn
from drgcn.errors import DrgcnWarning, InputError
from drgcn.studies.experiment import MODELS, Experiment

FORMAT = 1


@dataclass(frozen=True)
class SeedResult:
    """What one seed came to.

    Attributes:
        test_accuracy: Accuracy on the test nodes, between 0 and 1.
        val_accuracy: The same on the validation nodes, at the kept epoch.
        best_epoch: The epoch whose weights were kept.
        epochs: Epochs trained.
        k: Stability measure of each layer's learnt vector; empty without a gate.
        curve_val_accuracy: Validation accuracy at the record's ``curve_epochs``.
        curve_train_loss: Training loss at the same epochs.
        saturation: Share of each layer's gate entries at either end, see
            :func:`drgcn.stability.gate_saturation`; empty without a gate, and in records from
            before it was measured.
        s_deciles: Eleven numbers for each layer's learnt vector, its least entry, its deciles and
            its greatest; empty without a gate, and in records from before it was kept.
    """

    test_accuracy: float
    val_accuracy: float
    best_epoch: int
    epochs: int
    k: list[float | None]
    curve_val_accuracy: list[float]
    curve_train_loss: list[float]
    saturation: list[float] = field(default_factory=list)
    s_deciles: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class RunRecord:
    """The results of one pass, with all that is needed to judge and repeat them."""

    experiment: Experiment
    data: dict[str, Any]
    environment: dict[str, Any]
    started: str
    seconds: float
    curve_epochs: list[int]
    seeds: dict[int, SeedResult]

    @property
    def identity(self) -> str:
        """The experiment on this very data."""
        return self.experiment.identity(self.data["content_hash"])

    @property
    def file_name(self) -> str:
        """Readable, and unique to experiment, data and seeds."""
        words = [self.data["name"], self.data["split"], self.experiment.label]
        seeds = f"seeds-{min(self.seeds)}-{max(self.seeds)}"
        name = "-".join([*words, self.identity[:8], seeds]).replace(" + ", "-")
        return re.sub(r"[^\w.-]", "-", name) + ".json"

    def dumps(self) -> str:
        """JSON with one line per fact and one line per seed: small, and readable in a diff."""
        head = {
            "format": FORMAT,
            "experiment": self.experiment.to_dict(),
            "data": self.data,
            "environment": self.environment,
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "curve_epochs": self.curve_epochs,
        }
        lines = [f'  "{key}": {json.dumps(value)},' for key, value in head.items()]
        seeds = [f'    "{s}": {json.dumps(asdict(r))}' for s, r in sorted(self.seeds.items())]
        return "\n".join(["{", *lines, '  "seeds": {', ",\n".join(seeds), "  }", "}"]) + "\n"

    @classmethod
    def loads(cls, text: str, source: str = "record") -> RunRecord:
        """Reads what :meth:`dumps` wrote."""
        try:
            raw = json.loads(text)
            if not isinstance(raw, dict) or raw.pop("format", None) != FORMAT:
                raise ValueError(f"it is not of format {FORMAT}")
            _expect_fields(cls, raw, "it")
            _expect_fields(Experiment, raw["experiment"], "its experiment")
            for name in ("data", "environment", "seeds"):
                _expect_object(raw[name], f"its {name}")
            for seed, result in raw["seeds"].items():
                if not seed.isdecimal():
                    raise ValueError(f"the seed {seed!r} is no whole number")
                _expect_fields(SeedResult, result, f"seed {seed}")
            seeds = {int(s): SeedResult(**r) for s, r in raw.pop("seeds").items()}
            record = cls(experiment=Experiment(**raw.pop("experiment")), seeds=seeds, **raw)
            record.expect_whole()
        except json.JSONDecodeError as error:
            reason = f"it is no whole JSON from line {error.lineno} on" if text else "it is empty"
        except ValueError as error:
            reason = str(error)
        else:
            return record
        raise InputError(f"{source} is no record of this program ({reason}). Remove or repair it.")

    @classmethod
    def read(cls, path: Path) -> RunRecord:
        """The record in a file."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"Expected a run record; {path} cannot be read ({error}). Remove or repair it."
            ) from None
        return cls.loads(text, str(path))

    def expect_whole(self) -> None:
        """Refuses what tables and comparisons would trip over, with a ``ValueError``."""
        if self.experiment.model not in MODELS:
            raise ValueError(f"unknown model {self.experiment.model!r}")
        for name in ("name", "split", "content_hash"):
            if not isinstance(self.data.get(name), str):
                raise ValueError(f"the data has no {name}")
        if not isinstance(self.environment.get("device"), str):
            raise ValueError("the environment has no device")
        if not self.seeds:
            raise ValueError("it has no seeds")
        for seed, result in self.seeds.items():
            for name in ("test_accuracy", "val_accuracy", "best_epoch"):
                if not isinstance(getattr(result, name), int | float):
                    raise ValueError(f"seed {seed} has no {name.replace('_', ' ')}")
            if not isinstance(result.k, list):
                raise ValueError(f"seed {seed} has no list of K")
        if len({len(result.k) for result in self.seeds.values()}) > 1:
            raise ValueError("its seeds have K of different numbers of layers")

    def save(self, folder: Path, name: str | None = None) -> Path:
        """Writes the record under its own name, or another, whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (name or self.file_name)
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
            partial.unlink(missing_ok=True)  # also on a full disk, and when interrupted
        return path


def _expect_object(values: Any, whose: str) -> None:
    if not isinstance(values, dict):
        raise ValueError(f"{whose} should be names with values")


def _expect_fields(made: type, values: Any, whose: str) -> None:
    """Refuses values that are not those of a dataclass, with a ``ValueError``."""
    _expect_object(values, whose)
    known = {f.name: (f.default, f.default_factory) for f in fields(made)}
    for name, defaults in known.items():
        if name not in values and defaults == (MISSING, MISSING):
            raise ValueError(f"{whose} has no {name}")
    if unknown := sorted(values.keys() - known):
        raise ValueError(f"{whose} has an unknown {unknown[0]}")


def records_in(folder: Path) -> dict[Path, RunRecord]:
    """The records of a folder by their files, in the order of names; others are left alone.

    A file that should be a record and is none is named in a warning and set aside: one damaged
    file must not keep the others from being read, nor be deleted by us.
    """
    paths = sorted(folder.glob("*-seeds-*.json")) if folder.is_dir() else []
    found = {}
    for path in paths:
        try:
            found[path] = RunRecord.read(path)
        except InputError as error:
            warnings.warn(f"left out a damaged record. {error}", DrgcnWarning, stacklevel=3)
    return found


def load_records(folder: Path) -> list[RunRecord]:
    """The records of a folder, see :func:`records_in`."""
    return list(records_in(folder).values())


def environment(device: torch.device) -> dict[str, str | int]:
    """What a reader needs to know to compare times, and to repeat numbers."""
    found: dict[str, str | int] = {
        "drgcn": drgcn.__version__,
        "source": source_hash(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": importlib.metadata.version("torch_geometric"),
        "device": device_name(device),
    }
    if device.type == "cpu":
        found["threads"] = torch.get_num_threads()
    return found


def device_name(device: torch.device) -> str:
    """The hardware, in the words of its maker."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@lru_cache(maxsize=1)
def source_hash() -> str:
    """A hash of the installed source files: it changes with the code, committed or not."""
    digest = hashlib.sha256()
    root = Path(drgcn.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
