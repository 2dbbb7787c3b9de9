"""One pass of a baseline as one JSON file, written once and never changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from drgcn.errors import DrgcnWarning, InputError

FORMAT = "drgcn baseline"
_FACTS = {
    **{"method": str, "settings": dict, "data": dict, "environment": dict},
    **{"started": str, "seconds": int | float, "seeds": dict},
}


@dataclass(frozen=True)
class SeedResult:
    """What one seed came to.

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
    """The results of one pass, in the form of :class:`drgcn.studies.run_record.RunRecord` with
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
        """Reads what :meth:`dumps` wrote."""
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
        """Writes the record whole or not at all, and never over another."""
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
    """The records of a folder by their files; of damaged ones it warns."""
    found = {}
    for path in sorted(folder.glob("*-seeds-*.json")) if folder.is_dir() else []:
        try:
            found[path] = BaselineRecord.loads(path.read_text(encoding="utf-8"), str(path))
        except (InputError, OSError, UnicodeDecodeError) as error:
            warnings.warn(f"left out a damaged record. {error}", DrgcnWarning, stacklevel=2)
    return found
