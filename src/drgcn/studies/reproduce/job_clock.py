"""How long one job has been running, and how fast its epochs go."""

from __future__ import annotations

_ENOUGH = 0.01  # of the budget, seen from one look to another: less says little of the rest


class JobClock:
    """Notes when a job started and how far it was when.

    Starting a process, reading data and a first epoch that compiles have a pace of their own, and
    a job may go on from a checkpoint. So the pace is taken between two looks at its epochs.

    Args:
        now: The time at its start, in seconds.
    """

    def __init__(self, now: float) -> None:
        self.started = now
        self._first: tuple[float, float] | None = None
        self._last: tuple[float, float] | None = None

    def moved(self, share: float, now: float) -> None:
        """Notes the share of its epochs that is done."""
        if share > 0.0:
            self._first = self._first or (share, now)
            self._last = (share, now)

    @property
    def pace(self) -> float | None:
        """Seconds for the whole budget of epochs; ``None`` until enough of it was seen."""
        if self._first is None or self._last is None:
            return None
        (before, start), (share, end) = self._first, self._last
        return (end - start) / (share - before) if share - before >= _ENOUGH else None

    @property
    def left(self) -> float | None:
        """Seconds for the epochs not done, if all of the budget will be used."""
        pace = self.pace
        return None if pace is None or self._last is None else pace * (1.0 - self._last[0])
