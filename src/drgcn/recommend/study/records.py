"""One run of a study as one JSON file, written once and never changed."""

from __future__ import annotations

import base64
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from drgcn._io import write_once
from drgcn.recommend.study.settings import StudySettings
from drgcn.records import Record, dump_facts, identity_of, readable_name

#: Raised when the same settings come to mean another run; older records are then run again.
PROTOCOL = 1
_MOST_USERS = 300_000  # whose values a record holds, a byte or two each


@dataclass(frozen=True)
class StudyRecord(Record):
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

    kind: ClassVar = "a record of a study"
    format: ClassVar = "drgcn recommend study"
    pattern: ClassVar = "*-seed-*.json"

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
        """Return the record as JSON, with one line for each fact."""
        facts = {"format": self.format, "protocol": PROTOCOL, "identity": self.identity}
        facts |= {field.name: getattr(self, field.name) for field in fields(self)}
        return dump_facts(facts | {"settings": self.settings.to_dict()}, indent=1)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> StudyRecord:
        """Return the record with the facts of a file."""
        for name in ("protocol", "identity"):
            facts.pop(name)
        return cls(settings=StudySettings.from_dict(facts.pop("settings")), **facts)

    def save(self, folder: Path, name: str | None = None) -> Path:
        """Write the record whole or not at all; one that is there already stays."""
        path = folder / (name or self.file_name)
        with suppress(FileExistsError):  # somebody else has run the same meanwhile
            write_once(path, self.dumps())
        return path


def identity(settings: StudySettings, content_hash: str, purpose: str = "compare") -> str:
    """A hash of settings that differ from their defaults, data and protocol.

    Settings that are added later with a default do not rename old records.
    """
    usual = asdict(StudySettings())
    own = {name: value for name, value in asdict(settings).items() if value != usual[name]}
    return identity_of([PROTOCOL, purpose, content_hash, own])


def file_name(
    settings: StudySettings, data: str, identifier: str, purpose: str = "compare"
) -> str:
    """The name of a run's record."""
    words = [purpose, data, settings.model, settings.protocol, settings.gate, identifier[:8]]
    return readable_name([*words, f"seed-{settings.seed}"])


def read_records(folder: Path, purpose: str = "compare") -> list[StudyRecord]:
    """Return the records of a folder, see :meth:`drgcn.records.Record.read_folder`."""
    return list(StudyRecord.read_folder(folder, f"{purpose}-*-seed-*.json").values())


def packed(values: np.ndarray) -> str:
    """Single-precision numbers as text, compressed; nothing if there are very many."""
    if len(values) > _MOST_USERS:
        return ""
    return base64.b64encode(zlib.compress(values.astype("<f4").tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """Read what :func:`packed` returned."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<f4").astype(np.float64)
