"""How long a plan will still take."""

from __future__ import annotations

from collections.abc import Mapping


class TimeLeft:
    """Holds the cost of what is done against the time it took.

    Costs may be in any unit: only their shares count.

    Args:
        costs: What each job is expected to cost, by its key.
    """

    def __init__(self, costs: Mapping[str, float]) -> None:
        usual = sum(costs.values()) / max(len(costs), 1) or 1.0
        self._costs = {key: cost or usual for key, cost in costs.items()}
        self._shares = dict.fromkeys(costs, 0.0)

    def moved(self, key: str, share: float) -> None:
        """Notes the share of a job that is done."""
        self._shares[key] = min(max(share, 0.0), 1.0)

    @property
    def share(self) -> float:
        """The share of the whole that is done."""
        whole = sum(self._costs.values())
        return sum(self._costs[k] * s for k, s in self._shares.items()) / whole if whole else 1.0

    def seconds(self, elapsed: float) -> float | None:
        """Seconds left after so many; ``None`` as long as there is nothing to go by."""
        share = self.share
        return None if share < 0.001 else elapsed * (1 - share) / share


def duration_words(seconds: float) -> str:
    """A time as people say it: ``45 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
