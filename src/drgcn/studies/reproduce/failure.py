"""What is kept of a job that failed."""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from drgcn.errors import InputError
from drgcn.studies.reproduce.job import Job
from drgcn.studies.reproduce.job_report import JobReport
from drgcn.studies.reproduce.whole_file import write_whole

_FOLDER = "failures"


@dataclass(frozen=True)
class Failure:
    """A job that failed: one JSON file under ``failures``, until the job succeeds.

    Attributes:
        name: The job in words.
        experiment: Its experiment, as plain values.
        normalize: How its features were to be scaled.
        seeds: The seeds wanted.
        error: What went wrong, in one line.
        traceback: Where it went wrong.
        attempts: How often it was tried.
        when: The time it was given up.
        environment: Versions and hardware.
    """

    name: str
    experiment: dict[str, Any]
    normalize: str | None
    seeds: list[int]
    error: str
    traceback: str
    attempts: int
    when: str
    environment: dict[str, Any]

    @classmethod
    def of(cls, report: JobReport, environment: dict[str, Any]) -> Failure:
        """The failure that a report tells of."""
        job = report.job
        return cls(
            name=job.name,
            experiment=job.experiment.to_dict(),
            normalize=job.normalize,
            seeds=list(job.seeds),
            error=report.error or "",
            traceback=report.traceback,
            attempts=report.attempts,
            when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            environment=environment,
        )

    @classmethod
    def read(cls, path: Path) -> Failure:
        """The failure in a file."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                f"Expected the account of a failed job; {path} is none ({error}). Remove it."
            ) from None

    def save(self, path: Path) -> Path:
        """Writes it, over an earlier failure of the same job."""
        return write_whole(path, json.dumps(asdict(self), indent=1) + "\n")


def failure_path(job: Job, out: Path) -> Path:
    """Where a failure of a job is kept."""
    return out / _FOLDER / f"{job.file_stem}.json"


def clear_failure(job: Job, out: Path) -> None:
    """Removes an earlier failure of a job that has succeeded."""
    path = failure_path(job, out)
    path.unlink(missing_ok=True)
    if path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()


def failures_in(out: Path) -> list[Failure]:
    """All failures of a folder, in the order of names."""
    folder = out / _FOLDER
    return [Failure.read(p) for p in sorted(folder.glob("*.json"))] if folder.is_dir() else []
