"""One piece of work of a reproduction, small enough to hand to another process or machine."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torch_geometric.data import Data

from drgcn.data import load
from drgcn.data.downloader import data_root as chosen_root
from drgcn.studies.experiment import Experiment, departures
from drgcn.studies.reproduce.job_lock import job_lock
from drgcn.studies.runner import Outcome, checkpoint_path, run
from drgcn.training import Progress, clear_checkpoint


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
        """What to call it in a progress view: ``cora full gcn + dr``."""
        words = [self.experiment.dataset, self.experiment.split, self.experiment.label]
        return " ".join([*words, f"[{self.normalize}]"] if self.normalize else words)

    @property
    def key(self) -> str:
        """Equal for jobs that differ in seeds alone; known before the data is read."""
        facts = [departures(self.experiment, Experiment("", "")), self.normalize]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def file_stem(self) -> str:
        """Its name as that of a file: ``cora-full-gcn-dr-row-0a1b2c3d``."""
        words = re.sub(r"[^\w.]+", "-", self.name).strip("-")
        return f"{words}-{self.key[:8]}"


def run_job(
    job: Job,
    out: Path,
    *,
    data_root: Path | None = None,
    device: str = "cpu",
    progress: Callable[[Progress], None] | None = None,
    patience: float | None = None,
) -> Outcome:
    """Trains what is missing of a job and records it in ``out``.

    The one function that every way of running jobs calls, in this process or another, here or on
    a cluster: records are the same whoever calls it. While it runs, the job is locked, so that
    two runners on one folder do not do the same work twice.

    Args:
        job: What to run.
        out: Folder of the records.
        data_root: Folder of the datasets, see :func:`drgcn.load`.
        device: Where to train.
        progress: See :func:`drgcn.fit`.
        patience: How many seconds to wait if another process has the job in hand; as long as it
            takes if not given.

    Raises:
        JobBusyError: If the other process is still at it after that.
    """
    data = job_data(job, data_root)
    identity = job.experiment.identity(data.dataset.content_hash)
    with job_lock(out / ".locks" / identity, patience):
        _clear_partial(out, identity)
        try:
            outcome = run(job.experiment, data, job.seeds, out, device=device, progress=progress)
        except BaseException:
            _clear_partial(out, identity)  # on a full disk it is in the way of others
            raise
        if not outcome.trained:
            # Left by a process that was killed between its record and its clearing up.
            clear_checkpoint(checkpoint_path(job.experiment, data, out))
        return outcome


def job_data(job: Job, data_root: Path | None = None) -> Data:
    """The data of a job; what was read last is kept, for many jobs share a dataset."""
    experiment = job.experiment
    return _data(experiment.dataset, experiment.split, job.normalize, chosen_root(data_root))


@lru_cache(maxsize=4)
def _data(dataset: str, split: str, normalize: str | None, root: Path) -> Data:
    return load(dataset, root, split=split, normalize=normalize)


def _clear_partial(out: Path, identity: str) -> None:
    """Removes half-written records and checkpoints of a job; only for who has its lock."""
    for pattern in (f".*-{identity[:8]}-seeds-*.partial", f".checkpoints/{identity}.*.partial"):
        for partial in out.glob(pattern):
            partial.unlink(missing_ok=True)
