"""What is kept of a whole run of ``drgcn reproduce``: above all its wall time."""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from drgcn.errors import InputError
from drgcn.studies.reproduce.whole_file import write_whole

Ending = Literal["finished", "interrupted", "disk full"]
_FOLDER = "suites"


@dataclass(frozen=True)
class SuiteRecord:
    """One JSON file under ``suites``, named after the moment of the start.

    Attributes:
        started: When it started, in UTC.
        ending: How it ended; ``finished`` also if some jobs failed.
        tables: The tables asked for.
        only: The filters given.
        controls: Whether the control gates were run beside Dr.
        workers: How many jobs ran at once.
        threads: CPU threads of each.
        wall_seconds: From the start of the command to its end.
        job_seconds: The jobs' own seconds, added up.
        jobs: Jobs that this suite ran itself, failed ones included.
        failed: Jobs that failed.
        cells: Cells of the tables that the jobs which trained something belong to.
        seeds_trained: Seeds trained, over all jobs.
        seeds_recorded: Seeds that were on record before.
        environment: Versions and hardware.
        jobs_of_others: Jobs of the plan that another suite on the same folder did meanwhile: the
            wall time is not that of the whole plan then.
    """

    started: str
    ending: Ending
    tables: list[str]
    only: dict[str, list[str]]
    controls: bool
    workers: int
    threads: int
    wall_seconds: float
    job_seconds: float
    jobs: int
    failed: int
    cells: int
    seeds_trained: int
    seeds_recorded: int
    environment: dict[str, Any]
    jobs_of_others: int = 0

    @classmethod
    def read(cls, path: Path) -> SuiteRecord:
        """The record in a file."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                f"Expected the record of a suite; {path} is none ({error}). Remove it."
            ) from None

    def save(self, out: Path) -> Path:
        """Writes it, whole or not at all."""
        moment = datetime.datetime.fromisoformat(self.started)
        name = f"{moment:%Y%m%dT%H%M%S%fZ}.json"
        return write_whole(out / _FOLDER / name, json.dumps(asdict(self), indent=1) + "\n")


def suites_in(out: Path) -> list[SuiteRecord]:
    """All suites of a folder, the oldest first."""
    folder = out / _FOLDER
    return [SuiteRecord.read(p) for p in sorted(folder.glob("*.json"))] if folder.is_dir() else []
