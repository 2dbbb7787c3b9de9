"""What a few paired differences say about their mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class MeanInterval:
    """A mean with its 95 % t interval and the two-sided p of its being zero.

    Attributes:
        mean: The mean.
        low: Lower end; minus infinity for one value.
        high: Upper end.
        p: Of the t-test; not a number for one value.
        count: Number of values.
    """

    mean: float
    low: float
    high: float
    p: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> MeanInterval:
        """Of some values.

        Example:
            >>> round(MeanInterval.of([1.0, 2.0, 3.0]).low, 3)
            -0.484
        """
        count, mean = len(values), float(np.mean(values))
        if count < 2:
            return cls(mean, -math.inf, math.inf, math.nan, count)
        error = float(np.std(values, ddof=1)) / math.sqrt(count)
        if error <= 1e-12 * max(abs(mean), 1e-12):  # all are the same, and t is undefined
            # What a test by signs says: all signs alike, one way or the other.
            return cls(mean, mean, mean, 1.0 if mean == 0 else 2.0 ** (1 - count), count)
        reach = float(stats.t.ppf(0.975, count - 1)) * error
        p = 2 * float(stats.t.sf(abs(mean) / error, count - 1))
        return cls(mean, mean - reach, mean + reach, p, count)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for the family they form (Holm, 1979); what is no number stays so.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    known = [place for place, p in enumerate(p_values) if not math.isnan(p)]
    corrected, highest = [math.nan] * len(p_values), 0.0
    for turn, place in enumerate(sorted(known, key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(known) - turn) * p_values[place]))
        corrected[place] = highest
    return corrected
