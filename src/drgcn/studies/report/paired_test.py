"""Two rows compared seed by seed: a t-test, and a test that assumes no distribution beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from drgcn.errors import InputError
from drgcn.studies.comparison import Gain, Results, mean_interval

# Up to here all patterns of signs are counted, about a million; above some are drawn.
_COUNTED = 20
_DRAWS = 200_000


@dataclass(frozen=True)
class PairedTest:
    """What the seeds that two rows share say about their difference.

    Attributes:
        gain: Mean difference in points, with its own 95 % t-interval.
        p: Two-sided p-value of the paired t-test.
        p_flip: The same of the sign-flip test.
        seeds: Seeds that both rows have.
    """

    gain: Gain
    p: float
    p_flip: float
    seeds: int


def paired_test(results: Results, baseline: Results) -> PairedTest:
    """Tests whether two rows differ in the mean, over the seeds they share.

    Raises:
        InputError: If they share fewer than two.
    """
    seeds = sorted(results.keys() & baseline.keys())
    if len(seeds) < 2:
        raise InputError(f"Expected two seeds or more in both rows; found {len(seeds)}.")
    points = [100 * (results[s].test_accuracy - baseline[s].test_accuracy) for s in seeds]
    flipped = sign_flip_p(points)
    return PairedTest(mean_interval(points), _t_test_p(points, flipped), flipped, len(seeds))


def sign_flip_p(differences: Sequence[float], seed: int = 0) -> float:
    """Share of all patterns of signs whose sum lies as far from zero as the one observed.

    If two rows are alike, the difference of a seed has either sign equally often. Up to 20
    differences all patterns are counted, so that the p-value is exact; of more they are drawn.

    Args:
        differences: One for each seed.
        seed: Of the draws.

    Example:
        >>> sign_flip_p([1.0, 2.0, 3.0])
        0.25
    """
    values = np.asarray(differences, float)
    observed = abs(values.sum()) - 1e-9 * np.abs(values).sum()  # equal sums differ by rounding
    if len(values) <= _COUNTED:
        sums = np.zeros(1)
        for value in values[1:]:  # the first sign is given: the other half mirrors these
            sums = np.concatenate([sums + value, sums - value])
        return float((np.abs(sums + values[0]) >= observed).mean())
    signs = np.random.default_rng(seed).integers(0, 2, (_DRAWS, len(values)), dtype=np.int8)
    drawn = np.abs(2 * (signs @ values) - values.sum())
    return (1 + int((drawn >= observed).sum())) / (1 + _DRAWS)


def _t_test_p(points: Sequence[float], flipped: float) -> float:
    if np.ptp(points) < 1e-9 * max(np.abs(points).max(), 1.0):
        return flipped  # all differences are the same, and t is undefined
    return float(stats.ttest_1samp(points, 0.0).pvalue)
