"""How a job ended."""

from __future__ import annotations

from dataclasses import dataclass

from drgcn.studies.reproduce.job import Job


@dataclass(frozen=True)
class JobReport:
    """How a job ended, small enough to be sent from another process or machine.

    The numbers themselves are not in it: they are in the records that the job has written.

    Attributes:
        job: The job.
        trained: Seeds that were trained now; none if all were on record by then.
        seconds: What the job took where it ran, reading the data included.
        error: What went wrong, in one line; ``None`` if nothing did.
        traceback: Where it went wrong.
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
