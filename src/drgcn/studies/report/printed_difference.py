"""How far our numbers lie from a printed one, with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy import stats

from drgcn.studies.comparison import Gain, mean_interval

#: "All of our methods and compared baseline methods are run 20 times".
PAPER_RUNS: Final = 20


def printed_difference(
    values: Sequence[float], mean: float, std: float | None, runs: int = PAPER_RUNS
) -> Gain:
    """Our mean less the printed one, with a 95 % interval.

    With a printed deviation it is Welch's interval, which lets both sides have a spread of their
    own. Without one the printed number is taken as it stands, and only ours vary.

    Args:
        values: Our values, one for each seed.
        mean: The printed mean.
        std: The printed standard deviation over runs.
        runs: How many runs the printed numbers are of.

    Example:
        >>> print(printed_difference([86.1, 86.5, 86.3], 86.0, None))
        +0.30 [-0.20, +0.80]
    """
    if std is None or len(values) < 2:
        one = mean_interval(values)
        return Gain(one.mean - mean, one.low - mean, one.high - mean)
    ours, theirs = float(np.var(values, ddof=1)) / len(values), std**2 / runs
    difference, square = float(np.mean(values)) - mean, ours + theirs
    if square == 0:
        return Gain(difference, difference, difference)
    freedom = square**2 / (ours**2 / (len(values) - 1) + theirs**2 / (runs - 1))
    half = float(stats.t.ppf(0.975, freedom)) * math.sqrt(square)
    return Gain(difference, difference - half, difference + half)


def within_rounding(difference: float, decimals: int) -> bool:
    """Whether a difference is lost when a mean is printed with so many digits after the point."""
    return abs(difference) <= 0.5 * 10**-decimals + 1e-9
