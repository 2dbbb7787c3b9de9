"""In which order jobs are handed out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from drgcn.studies.reproduce.job import Job

_WAIT = 1.0  # seconds, for a job that another runner has in hand


@dataclass(frozen=True)
class Turn:
    """A job's turn.

    Attributes:
        job: The job.
        attempt: Which attempt it is, from 1.
        patience: Seconds to wait if another runner has it in hand.
        alone: Whether nothing else may run beside it.
    """

    job: Job
    attempt: int = 1
    patience: float = 0.0
    alone: bool = False


class JobQueue:
    """Hands out jobs in the order given; then those that others had in hand; then the unlucky.

    A job gets its second chance at the end and alone: what kills a worker is most often
    want of memory, and that is when there is most of it.

    Args:
        jobs: The jobs, in the order in which they are to start.
    """

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._first = deque(Turn(job) for job in jobs)
        self._busy: deque[Turn] = deque()
        self._second: deque[Turn] = deque()

    def __len__(self) -> int:
        return len(self._first) + len(self._busy) + len(self._second)

    def next(self, running: Iterable[Turn]) -> Turn | None:
        """The next turn, given those that are being taken; nothing if it has to wait."""
        now = list(running)
        if any(turn.alone for turn in now):
            return None
        if self._first:
            return self._first.popleft()
        if self._busy:
            return self._busy.popleft()
        if self._second and not now:
            return self._second.popleft()
        return None

    def put_back(self, turn: Turn) -> None:
        """Takes back a job that another runner has in hand."""
        later = self._second if turn.alone else self._busy
        later.append(replace(turn, patience=_WAIT))

    def try_again(self, turn: Turn) -> None:
        """Takes back a job for one more attempt."""
        self._second.append(replace(turn, attempt=turn.attempt + 1, patience=_WAIT, alone=True))
