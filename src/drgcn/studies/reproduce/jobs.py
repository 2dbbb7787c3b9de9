"""Jobs of a reproduction and their outcomes, as files beside the records; nothing here trains."""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from drgcn._io import write_whole
from drgcn.errors import InputError
from drgcn.records import UNSOUND, expect_fields, identity_of, load_sealed, reason_of, sealed
from drgcn.studies.experiment import Experiment, departures

Ending = Literal["finished", "interrupted", "disk full"]
FAILURES = "failures"
SUITES = "suites"


@dataclass(frozen=True)
class Job:
    """An experiment, the data it is run on, and the seeds wanted of it.

    Attributes:
        experiment: What to train.
        normalize: How features are scaled, see :func:`drgcn.load`; the dataset's own way if not
            given.
        seeds: The seeds wanted. Those on record already are not trained again.
    """

    experiment: Experiment
    normalize: str | None
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name in a progress view: ``cora full gcn + dr``."""
        words = [self.experiment.dataset, self.experiment.split, self.experiment.label]
        return " ".join([*words, f"[{self.normalize}]"] if self.normalize else words)

    @property
    def key(self) -> str:
        """Equal for jobs that differ in seeds alone; known before the data is read."""
        facts = [departures(self.experiment, Experiment("", "")), self.normalize]
        return identity_of(facts)[:12]

    @property
    def file_stem(self) -> str:
        """Its name as that of a file: ``cora-full-gcn-dr-row-0a1b2c3d``."""
        words = re.sub(r"[^\w.]+", "-", self.name).strip("-")
        return f"{words}-{self.key[:8]}"


@dataclass(frozen=True)
class JobReport:
    """Ending of a job, small enough to be sent from another process or machine.

    The numbers themselves are not in it: they are in the records that the job has written.

    Attributes:
        job: The job.
        trained: Seeds that were trained now; none if all were on record by then.
        seconds: Duration of the job where it ran, reading the data included.
        error: The error in one line; ``None`` if it succeeded.
        traceback: Traceback of the error.
        attempts: How often it was tried.
        disk_full: Whether nothing more can be written, so that going on makes no sense.
        notes: Warnings of this package that came up on the way.
    """

    job: Job
    trained: tuple[int, ...] = ()
    seconds: float = 0.0
    error: str | None = None
    traceback: str = ""
    attempts: int = 1
    disk_full: bool = False
    notes: tuple[str, ...] = ()

    @property
    def error_type(self) -> str:
        """Name of the exception that ended it; empty if none did."""
        return (self.error or "").partition(":")[0]


@dataclass(frozen=True)
class Failure:
    """A job that failed: one JSON file under ``failures``, until the job succeeds.

    Attributes:
        name: The job in words.
        experiment: Its experiment, as plain values.
        normalize: How its features were to be scaled.
        seeds: The seeds wanted.
        error: The error in one line.
        traceback: Its traceback.
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
        """Return the failure that a report is about."""
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
        """Read the failure in a file."""
        return cls(**_read_facts(cls, path, "the account of a failed job"))

    def save(self, path: Path) -> Path:
        """Write it, over an earlier failure of the same job."""
        return write_whole(path, json.dumps(sealed(asdict(self)), indent=1) + "\n")


def failure_path(job: Job, out: Path) -> Path:
    """Return the path at which a failure of a job is kept."""
    return out / FAILURES / f"{job.file_stem}.json"


def clear_failure(job: Job, out: Path) -> None:
    """Remove an earlier failure of a job that has succeeded."""
    path = failure_path(job, out)
    path.unlink(missing_ok=True)
    if path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()


def failures_in(out: Path) -> list[Failure]:
    """Read all failures of a folder, in the order of names."""
    folder = out / FAILURES
    return [Failure.read(p) for p in sorted(folder.glob("*.json"))] if folder.is_dir() else []


@dataclass(frozen=True)
class SuiteRecord:
    """Account of one run of a suite: a JSON file under ``suites``, named after its start.

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
        """Read the record in a file."""
        return cls(**_read_facts(cls, path, "the record of a suite"))

    def save(self, out: Path) -> Path:
        """Write it, whole or not at all."""
        moment = datetime.datetime.fromisoformat(self.started)
        name = f"{moment:%Y%m%dT%H%M%S%fZ}.json"
        return write_whole(out / SUITES / name, json.dumps(sealed(asdict(self)), indent=1) + "\n")


def suites_in(out: Path) -> list[SuiteRecord]:
    """Read all suites of a folder, the oldest first."""
    folder = out / SUITES
    return [SuiteRecord.read(p) for p in sorted(folder.glob("*.json"))] if folder.is_dir() else []


def _read_facts(kind: type, path: Path, what: str) -> dict[str, Any]:
    """Read the facts of a dataclass from a file, checked by digest, name, type and range."""
    try:
        facts = load_sealed(path)
        expect_fields(kind, facts, "it")
        if below := [n for n, value in facts.items() if type(value) in (int, float) and value < 0]:
            raise ValueError(f"it has {facts[below[0]]} as {below[0]}")
        if "started" in facts and not datetime.datetime.fromisoformat(facts["started"]).tzinfo:
            raise ValueError(f"it has {facts['started']} as started, without a time zone")
    except (OSError, *UNSOUND) as error:
        raise InputError(
            f"Expected {what}; {path} is none ({reason_of(error)}). Remove it."
        ) from None
    return facts
