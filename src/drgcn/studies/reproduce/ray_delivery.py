"""Records that come from another machine, written into the folder of this one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from drgcn.studies.reproduce.job_lock import job_lock
from drgcn.studies.run_record import RunRecord, records_in


def deliver(text: str, out: Path) -> Path | None:
    """Writes a record, but for seeds that are on record by now.

    The job is locked meanwhile: another runner on the same folder may be at it. The record is
    there as a whole or not at all, and never replaces one.

    Args:
        text: What :meth:`~drgcn.studies.run_record.RunRecord.dumps` gave.
        out: Folder of the records.

    Returns:
        Where it is, or ``None`` if there was nothing new in it.
    """
    record = RunRecord.loads(text, "what a node sent")
    with job_lock(out / ".locks" / record.identity):
        alike = [r for r in records_in(out).values() if r.identity == record.identity]
        known = {seed for found in alike for seed in found.seeds}
        fresh = {seed: result for seed, result in record.seeds.items() if seed not in known}
        if not fresh:
            return None
        record = replace(record, seeds=fresh)
        name, number = record.file_name, 1
        while (out / name).exists():  # damaged, or other seeds between the same two
            number += 1
            name = f"{Path(record.file_name).stem}-{number}.json"
        return record.save(out, name)
