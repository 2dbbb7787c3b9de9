"""One job of a reproduction: run under its lock, with damaged records set aside."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torch_geometric.data import Data

from drgcn.data import load
from drgcn.data.downloader import data_root as chosen_root
from drgcn.errors import DrgcnError, InputError
from drgcn.studies.experiment import Experiment, departures
from drgcn.studies.records import RunRecord
from drgcn.studies.reproduce.whole_file import write_whole
from drgcn.studies.run import Outcome, checkpoint_path, run
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


_LOOK_EVERY = 0.1  # seconds


class JobBusyError(DrgcnError):
    """Another process has the job in hand."""


@contextmanager
def job_lock(path: Path, patience: float | None = None) -> Iterator[None]:
    """Holds a lock for as long as the block runs.

    The lock is the kernel's (``flock``), and not the file's being there: it goes with the
    process that holds it, also on ``kill -9``. A file left behind by a kill does no harm.

    Args:
        path: The file of the lock, made if need be and removed at the end.
        patience: How many seconds to wait for another process; for ever if not given.

    Raises:
        JobBusyError: If another process still holds the lock after that.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    latest = None if patience is None else time.monotonic() + patience
    while (handle := _taken(path)) is None:
        if latest is not None and time.monotonic() >= latest:
            raise JobBusyError(f"{path.name} is being run by another process")
        time.sleep(_LOOK_EVERY)
    try:
        yield
    finally:
        # Removed while it is still held, so that nobody else's file is removed.
        path.unlink(missing_ok=True)
        os.close(handle)


def _taken(path: Path) -> int | None:
    """A locked file handle, or nothing if another process has the lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between opening and locking, its holder may have removed the file: then the lock is
        # on a file that nobody else will ever find.
        found = os.stat(path)
        if os.path.samestat(found, os.fstat(handle)):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def damaged_in(out: Path) -> dict[Path, str]:
    """The files of a folder that should be records and are none, with the reason."""
    found = {}
    for path in sorted(out.glob("*-seeds-*.json")) if out.is_dir() else []:
        try:
            RunRecord.read(path)
        except InputError as error:
            if path.exists():  # another runner may have set it aside in this very moment
                found[path] = str(error)
    return found


def set_aside_damaged(out: Path) -> list[str]:
    """Moves damaged records to ``out/damaged``, each with a text that says why.

    Nothing is deleted: half a record may still tell somebody something. Returns one line for
    each file moved.
    """
    lines = []
    for path, reason in damaged_in(out).items():
        target = _free(out / "damaged" / path.name)
        target.parent.mkdir(exist_ok=True)
        try:
            path.rename(target)
        except FileNotFoundError:
            continue  # another runner was faster
        write_whole(target.with_suffix(".reason.txt"), reason + "\n")
        lines.append(f"damaged record set aside in {target}, its seeds are run again: {reason}")
    return lines


def _free(path: Path) -> Path:
    """A path that is not taken: the same file may be damaged twice."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free
