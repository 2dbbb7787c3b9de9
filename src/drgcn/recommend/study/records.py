"""One run of a study as one JSON file, written once and never changed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import warnings
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drgcn.errors import DrgcnWarning, InputError
from drgcn.recommend.study.settings import StudySettings

FORMAT = "drgcn recommend study"
#: Raised when the same settings come to mean another run; older records are then run again.
PROTOCOL = 1
_MOST_USERS = 300_000  # whose values a record holds, a byte or two each


@dataclass(frozen=True)
class StudyRecord:
    """Result of a run, with all that is needed to judge and repeat it.

    Attributes:
        settings: What was run.
        data: Name, content hash, sizes and parts of the data.
        purpose: ``"compare"``; or ``"search"``, which has validation alone and no test.
        model: The settings of the model itself.
        environment: Versions and hardware.
        started: When, in UTC.
        seconds: Of training and test.
        choice: The best step on validation and how training stopped; ``None`` if nothing was
            chosen.
        history: Step, loss and recall on validation at every look.
        trained_steps: Steps behind the weights that were tested.
        test: Report for each length of lists, by its number; empty for a search.
        user_recall: Recall at the first length, user by user, see :func:`packed`; empty for
            searches and very many users.
        peak_bytes: Most memory on a CUDA device.
    """

    settings: StudySettings
    data: dict[str, Any]
    purpose: str
    model: dict[str, Any]
    environment: dict[str, Any]
    started: str
    seconds: dict[str, float]
    choice: dict[str, Any] | None
    history: list[dict[str, float]]
    trained_steps: int
    test: dict[str, Any]
    user_recall: str = ""
    peak_bytes: int | None = None

    @property
    def identity(self) -> str:
        """Hash of settings, data and purpose, independent of machine and time."""
        return identity(self.settings, self.data["content_hash"], self.purpose)

    @property
    def file_name(self) -> str:
        """Readable, and unique to settings and data."""
        return file_name(self.settings, self.data["name"], self.identity, self.purpose)

    def recall(self, n: int | None = None, group: str = "all", measure: str = "recall") -> float:
        """A mean of the test."""
        report = self.test[str(n or self.settings.n[0])]
        return float(report["model"][group][measure]["mean"])

    def dumps(self) -> str:
        """JSON with one line for each fact."""
        facts = {"format": FORMAT, "protocol": PROTOCOL, "identity": self.identity}
        rest = {name: getattr(self, name) for name in self.__dataclass_fields__}
        facts |= rest | {"settings": self.settings.to_dict()}
        lines = [f' "{name}": {json.dumps(value)}' for name, value in facts.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def loads(cls, text: str, source: str = "record") -> StudyRecord:
        """Reads what :meth:`dumps` wrote."""
        try:
            facts = json.loads(text)
            for name in ("format", "protocol", "identity"):
                facts.pop(name)
            settings = StudySettings.from_dict(facts.pop("settings"))
            return cls(settings=settings, **facts)
        except (ValueError, KeyError, TypeError, AttributeError, InputError) as error:
            raise InputError(
                f"Expected a record of this program; {source} is none ({error}). Remove or repair "
                f"it."
            ) from None

    def save(self, folder: Path) -> Path:
        """Writes the record whole or not at all; one that is there already stays."""
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
            pass  # somebody else has run the same meanwhile
        finally:
            partial.unlink(missing_ok=True)
        return path


def identity(settings: StudySettings, content_hash: str, purpose: str = "compare") -> str:
    """A hash of settings that differ from their defaults, data and protocol.

    Settings that are added later with a default do not rename old records.
    """
    usual = asdict(StudySettings())
    own = {name: value for name, value in asdict(settings).items() if value != usual[name]}
    facts = json.dumps([PROTOCOL, purpose, content_hash, own], sort_keys=True)
    return hashlib.sha256(facts.encode()).hexdigest()


def file_name(
    settings: StudySettings, data: str, identifier: str, purpose: str = "compare"
) -> str:
    """The name of a run's record."""
    words = [purpose, data, settings.model, settings.protocol, settings.gate]
    return re.sub(r"[^\w.-]", "-", f"{'-'.join(words)}-{identifier[:8]}-seed-{settings.seed}.json")


def read_records(folder: Path, purpose: str = "compare") -> list[StudyRecord]:
    """The records of a folder by name; damaged ones are left out with a warning."""
    found = []
    for path in sorted(folder.glob(f"{purpose}-*-seed-*.json")) if folder.is_dir() else []:
        try:
            text = path.read_text(encoding="utf-8")
            found.append(StudyRecord.loads(text, str(path)))
        except (InputError, OSError, UnicodeDecodeError) as error:
            warnings.warn(f"left out a damaged record. {error}", DrgcnWarning, stacklevel=2)
    return found


def packed(values: np.ndarray) -> str:
    """Single-precision numbers as text, compressed; nothing if there are very many."""
    if len(values) > _MOST_USERS:
        return ""
    return base64.b64encode(zlib.compress(values.astype("<f4").tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """Read what :func:`packed` returned."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<f4").astype(np.float64)
