"""One piece of work of a reproduction, small enough to hand to another process or machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drgcn.data import load
from drgcn.studies.experiment import Experiment
from drgcn.studies.runner import Outcome, run


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


def run_job(job: Job, out: Path, *, data_root: Path | None = None, device: str = "cpu") -> Outcome:
    """Trains what is missing of a job and records it in ``out``.

    The one function that every way of running jobs calls, in this process or another, here or on
    a cluster: records are the same whoever calls it.
    """
    experiment = job.experiment
    data = load(
        experiment.dataset, split=experiment.split, normalize=job.normalize, root=data_root
    )
    return run(experiment, data, job.seeds, out, device=device)
