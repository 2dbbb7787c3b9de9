"""What a node of a cluster is asked to do, and what it sends back."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drgcn.studies.environment import source_hash
from drgcn.studies.reproduce.job import Job
from drgcn.studies.reproduce.job_report import JobReport
from drgcn.studies.run_record import RunRecord


@dataclass(frozen=True)
class Errand:
    """A job, and all that a node has to know about it.

    Attributes:
        job: What to run.
        out: The folder of the records, as the one who asks sees it.
        sign: Name of a file in that folder: a node that finds it sees the same folder, and works
            in it. ``None`` if nodes are to work in folders of their own in any case.
        own: What a folder of the node's own is called. The same for the same job and ``out``,
            so that a second attempt finds the checkpoint of the first.
        on_record: Seeds recorded in ``out``, by experiment and data (the identity of records).
        data_root: Folder of the datasets, if it was given.
        device: Where to train.
        threads: CPU threads.
        source: Hash of the code that asks.
    """

    job: Job
    out: Path
    sign: str | None
    own: str
    on_record: Mapping[str, frozenset[int]]
    data_root: Path | None
    device: str
    threads: int
    source: str

    @classmethod
    def of(
        cls,
        job: Job,
        out: Path,
        records: Sequence[RunRecord],
        *,
        sign: str | None,
        data_root: Path | None,
        device: str,
        threads: int,
    ) -> Errand:
        """What to say of a job, given the records in ``out``."""
        whose = hashlib.sha256(f"{platform.node()}:{out}".encode()).hexdigest()[:12]
        return cls(
            job=job,
            out=out,
            sign=sign,
            own=f"{whose}/{job.file_stem}",
            on_record=_on_record(job, records),
            data_root=data_root,
            device=device,
            threads=threads,
            source=source_hash(),
        )


@dataclass(frozen=True)
class Delivery:
    """How a job ended on a node, and its records as text unless they are in ``out`` already."""

    report: JobReport
    records: tuple[str, ...] = ()


def _on_record(job: Job, records: Sequence[RunRecord]) -> Mapping[str, frozenset[int]]:
    """Seeds on record for a job's experiment, whatever the data was: the node knows its own."""
    found: dict[str, frozenset[int]] = {}
    for record in records:
        if record.experiment == job.experiment:
            found[record.identity] = found.get(record.identity, frozenset()) | record.seeds.keys()
    return found
