"""A mean over users, and how far users as these could have brought it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

from torch import Tensor


@dataclass(frozen=True)
class Estimate:
    """A mean over users with its normal interval; not a number where there are no users.

    The interval speaks of users drawn like these and of nothing else: not of other seeds, which
    usually move a result farther.

    Attributes:
        mean: The mean.
        standard_error: Its standard error; not a number for fewer than two users.
        low: Lower end of the interval.
        high: Upper end.
        users: Number of users.
    """

    mean: float
    standard_error: float
    low: float
    high: float
    users: int

    @classmethod
    def of(cls, values: Tensor, confidence: float = 0.95) -> Estimate:
        """The mean of one value per user."""
        values, number = values.double(), values.numel()
        mean = float(values.mean()) if number else float("nan")
        error = float(values.std() / number**0.5) if number > 1 else float("nan")
        reach = NormalDist().inv_cdf(0.5 + confidence / 2) * error
        return cls(mean, error, mean - reach, mean + reach, number)

    def to_dict(self) -> dict[str, float | int | None]:
        """Plain numbers, ``None`` for what is not a number."""
        parts = (self.mean, self.standard_error, self.low, self.high)
        names = ("mean", "standard_error", "low", "high")
        known = (part if part == part else None for part in parts)
        return {**dict(zip(names, known, strict=True)), "users": self.users}
