"""What records say of the jobs of a plan."""

from __future__ import annotations

from collections.abc import Iterable

from drgcn.studies.reproduce.planned_job import PlannedJob
from drgcn.studies.run_record import RunRecord, SeedResult


def results_of(
    planned: Iterable[PlannedJob], records: Iterable[RunRecord]
) -> dict[str, dict[int, SeedResult]]:
    """Results by job and seed: only of the very experiment and data, and of seeds asked for."""
    by_identity: dict[str, dict[int, SeedResult]] = {}
    for record in records:
        by_identity.setdefault(record.identity, {}).update(record.seeds)
    found = {}
    for each in planned:
        known = by_identity.get(each.identity or "", {})
        found[each.job.key] = {seed: known[seed] for seed in each.job.seeds if seed in known}
    return found
