"""A job, and how much of it is still to be done."""

from __future__ import annotations

from dataclasses import dataclass

from drgcn.studies.reproduce.job import Job


@dataclass(frozen=True)
class PlannedJob:
    """A job held against the records.

    Attributes:
        job: The job.
        identity: The experiment on its very data, as records have it; ``None`` if the data
            could not be read.
        missing: Seeds that no record has.
        cost: What they are expected to cost, see :class:`CostEstimate`.
        reason: Why it cannot be run; ``None`` if it can.
    """

    job: Job
    identity: str | None
    missing: tuple[int, ...]
    cost: float = 0.0
    reason: str | None = None
