"""Intervals, paired tests, Holm's correction and correlations, with one rule for "sure".

Two rows differ surely if, over the seeds that both have, the p-value of the paired t-test,
corrected by Holm's method over the family of comparisons that are shown together, lies below 0.05.
:func:`decide` applies this rule, and :attr:`Decision.correction` names test and family in words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from scipy import special  # the t-distribution, without the weight of scipy.stats

from drgcn.errors import InputError

Array = npt.NDArray[np.float64]
Sign = Literal["up", "down", "unsure"]

#: A corrected p-value below this is called sure.
LEVEL: Final = 0.05
# Quantile at the upper end of a 95 % interval.
_UPPER = 0.975
# Differences in points that are closer than this are equal up to rounding.
_EQUAL = 1e-9


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation (n - 1) over seeds.

    Attributes:
        mean: The mean.
        std: The standard deviation; NaN for fewer than two seeds.
        seeds: Number of seeds.
    """

    mean: float
    std: float
    seeds: int

    @staticmethod
    def of(values: Sequence[float]) -> Summary:
        """Return the summary of one value per seed; the mean of none is NaN."""
        return Summary(_mean(values), _std(values), len(values))

    def words(self, digits: int) -> str:
        """Return ``86.8 ± 0.5``; of one seed the mean alone, which has no deviation."""
        spread = "" if math.isnan(self.std) else f" ± {self.std:.{digits}f}"
        return f"{self.mean:.{digits}f}{spread}"


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % confidence interval, of one quantity by itself: not corrected for how
    many are shown together.

    Attributes:
        mean: The mean.
        low: Lower end; minus infinity where one value allows no interval.
        high: Upper end.
    """

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """True if zero lies outside. An interval of NaN excludes nothing."""
        return self.low > 0 or self.high < 0

    def __sub__(self, shift: float) -> Interval:
        return Interval(self.mean - shift, self.low - shift, self.high - shift)

    def words(self, digits: int) -> str:
        """Return ``+0.39 [-0.00, +0.77]``; the mean alone where there is no interval."""
        ends = f" [{self.low:+.{digits}f}, {self.high:+.{digits}f}]"
        return f"{self.mean:+.{digits}f}{ends if math.isfinite(self.low) else ''}"

    def __str__(self) -> str:
        return self.words(2)


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean of some values with its t-interval; without bounds for fewer than two.

    Example:
        >>> print(mean_interval([1.0, 2.0, 3.0]))
        +2.00 [-0.48, +4.48]
    """
    mean, count = _mean(values), len(values)
    if count < 2:
        return Interval(mean, -math.inf, math.inf)
    half = float(special.stdtrit(count - 1, _UPPER)) * _std(values) / math.sqrt(count)
    return Interval(mean, mean - half, mean + half)


def printed_difference(
    values: Sequence[float], mean: float, std: float | None, runs: int
) -> Interval:
    """Return the mean of some values less a printed one, with a 95 % interval.

    With a printed deviation it is Welch's interval, which lets both sides have a spread of their
    own. Without one the printed number is taken as it stands, and only ours vary; but if it is of
    one run, it is one more draw with the spread of ours.

    Args:
        values: Our values, one for each seed.
        mean: The printed mean.
        std: The printed standard deviation over runs.
        runs: Number of runs behind the printed number.

    Example:
        >>> print(printed_difference([86.1, 86.5, 86.3], 86.0, None, 20))
        +0.30 [-0.20, +0.80]
        >>> print(printed_difference([86.1, 86.5, 86.3], 86.0, None, 1))
        +0.30 [-0.69, +1.29]
    """
    if len(values) < 2 or (std is None and runs > 1):
        return mean_interval(values) - mean
    if std is None:
        # Variance of a draw less the mean of the others.
        half = math.sqrt((1 + 1 / len(values)) * float(np.var(values, ddof=1)))
        half *= float(special.stdtrit(len(values) - 1, _UPPER))
        difference = _mean(values) - mean
        return Interval(difference, difference - half, difference + half)
    ours, theirs = float(np.var(values, ddof=1)) / len(values), std**2 / runs
    difference, square = _mean(values) - mean, ours + theirs
    if square == 0:
        return Interval(difference, difference, difference)
    freedom = square**2 / (ours**2 / (len(values) - 1) + theirs**2 / (runs - 1))
    half = float(special.stdtrit(freedom, _UPPER)) * math.sqrt(square)
    return Interval(difference, difference - half, difference + half)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _std(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


@dataclass(frozen=True)
class PairedTest:
    """Two rows compared over the seeds they share.

    Attributes:
        gain: Mean difference, with its own 95 % t-interval.
        p: Two-sided p-value of the paired t-test; NaN for fewer than two seeds, or where a
            difference is NaN.
        p_flip: The same of the sign-flip test.
        seeds: Number of shared seeds.
    """

    gain: Interval
    p: float
    p_flip: float
    seeds: int


def paired_test(differences: Sequence[float]) -> PairedTest:
    """Test whether the mean of paired differences is zero.

    Where all differences are equal, t is undefined and the p-value is that of the sign-flip test.

    Args:
        differences: One for each seed that both rows have.
    """
    flipped = sign_flip_p(differences) if len(differences) > 1 else math.nan
    return PairedTest(
        gain=mean_interval(differences),
        p=_t_test_p(differences, flipped),
        p_flip=flipped,
        seeds=len(differences),
    )


def _t_test_p(differences: Sequence[float], flipped: float) -> float:
    if math.isnan(flipped):
        return math.nan
    if np.ptp(differences) < _EQUAL * max(np.abs(differences).max(), 1.0):
        return flipped
    count = len(differences)
    t = _mean(differences) / (_std(differences) / math.sqrt(count))
    return 2 * float(special.stdtr(count - 1, -abs(t)))


# Up to so many differences all patterns of signs are counted; above some are drawn.
_COUNTED = 20
_FLIPS = 200_000


def sign_flip_p(differences: Sequence[float], seed: int = 0) -> float:
    """Return the share of all patterns of signs whose sum lies as far from zero as the observed.

    If two rows are alike, the difference of a seed has either sign equally often. Up to 20
    differences all patterns are counted, so that the p-value is exact; of more they are drawn.
    It is NaN of no differences, and where one of them is NaN.

    Args:
        differences: One for each seed.
        seed: Of the draws.

    Example:
        >>> sign_flip_p([1.0, 2.0, 3.0])
        0.25
    """
    values = np.asarray(differences, float)
    if not len(values) or np.isnan(values).any():
        return math.nan
    observed = abs(values.sum()) - 1e-9 * np.abs(values).sum()  # equal sums differ by rounding
    if observed <= 0:
        return 1.0
    if len(values) <= _COUNTED:
        # The first sign is given: the other half of the patterns mirrors these. A sum is one of
        # the left half of the values and one of the right, which are counted by bisection.
        middle = (len(values) + 1) // 2
        left = values[0] + _signed_sums(values[1:middle])
        right = np.sort(_signed_sums(values[middle:]))
        above = len(right) - np.searchsorted(right, observed - left, side="left")
        below = np.searchsorted(right, -observed - left, side="right")
        return int(above.sum() + below.sum()) / (len(left) * len(right))
    signs = np.random.default_rng(seed).integers(0, 2, (_FLIPS, len(values)), dtype=np.int8)
    drawn = np.abs(2 * (signs @ values) - values.sum())
    return (1 + int((drawn >= observed).sum())) / (1 + _FLIPS)


def _signed_sums(values: Array) -> Array:
    """Sums of some values under all patterns of signs."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for the family they form (Holm, 1979).

    A p-value that is NaN stays so and does not count in the family: nothing was tested.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    known = [place for place, p in enumerate(p_values) if not math.isnan(p)]
    corrected, highest = [math.nan] * len(p_values), 0.0
    for step, place in enumerate(sorted(known, key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(known) - step) * p_values[place]))
        corrected[place] = highest
    return corrected


@dataclass(frozen=True)
class Decision:
    """One comparison of a family, judged by the rule of this module.

    Attributes:
        test: The comparison by itself.
        p_holm: P-value of its t-test, corrected for the whole family.
        flip_holm: The same for its sign-flip test, which assumes no normal distribution.
        family: Number of comparisons that the correction counts.
    """

    test: PairedTest
    p_holm: float
    flip_holm: float
    family: int

    @property
    def sure(self) -> bool:
        """True if the rows surely differ. Fewer than two seeds, or a NaN, never do."""
        return self.p_holm < LEVEL

    @property
    def sign(self) -> Sign:
        """The direction of a sure difference."""
        if not self.sure:
            return "unsure"
        return "up" if self.test.gain.mean > 0 else "down"

    @property
    def agreed(self) -> bool:
        """True if the sign-flip test, corrected the same way, comes to the same."""
        return self.sure == (self.flip_holm < LEVEL)

    @property
    def correction(self) -> str:
        """The test and its family in words: ``paired t-test, Holm over 3 comparisons``."""
        return correction_words(self.family)

    @property
    def words(self) -> str:
        """The difference in points with its own interval and its corrected p-value."""
        return self.words_in("points", 2)

    def words_in(self, unit: str, digits: int) -> str:
        """Return :attr:`words` in another unit, to some decimal places."""
        mean, low, high = (f"{n:+.{digits}f}" for n in astuple(self.test.gain))
        if math.isnan(self.p_holm):
            return f"{mean} {unit}, not tested"
        return f"{mean} {unit}, 95 % interval {low} to {high}, corrected p {p_words(self.p_holm)}"


def decide(family: Sequence[Sequence[float]]) -> list[Decision]:
    """Judge a family of comparisons that are shown together.

    Args:
        family: For each comparison the differences of the seeds that both rows have.

    Example:
        >>> first, second = decide([[1.0, 1.2, 0.9, 1.1], [0.3, -0.2, 0.1, 0.0]])
        >>> first.sign, second.sign, first.correction
        ('up', 'unsure', 'paired t-test, Holm over 2 comparisons')
    """
    tests = [paired_test(differences) for differences in family]
    corrected = holm([test.p for test in tests])
    flipped = holm([test.p_flip for test in tests])
    size = sum(not math.isnan(test.p) for test in tests)
    return [
        Decision(test, p, flip, size)
        for test, p, flip in zip(tests, corrected, flipped, strict=True)
    ]


def correction_words(*families: int) -> str:
    """Return the test of the rule and its correction, over families of these sizes, in words."""
    sizes = sorted(set(families))
    if sizes == [1]:
        return "paired t-test, one comparison"
    return f"paired t-test, Holm over {' or '.join(map(str, sizes))} comparisons"


def p_words(p: float) -> str:
    """Return a p-value to two digits; small ones as a bound."""
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


#: Bootstrap samples and permutations of a correlation.
DRAWS: Final = 10_000
#: Clusters that a correlation needs.
FEWEST: Final = 3


@dataclass(frozen=True)
class Correlation:
    """Correlation of two quantities over observations that come in clusters.

    Splits of one dataset are no independent witnesses, nor are its raw and its standardised
    features: a dataset is a cluster, and its observations share a weight of one.

    Attributes:
        observations: Number of observations.
        clusters: Number of clusters.
        spearman: Rank correlation; ties have the mean of their ranks.
        low: Lower end of its 95 % interval, by drawing clusters with replacement.
        high: Upper end.
        p: Share of permutations with a rank correlation at least as far from zero.
        pearson: Correlation of the values themselves.
        without: The rank correlation when one cluster is left out, by its name; NaN if nothing
            varies without it.
        pearson_without: The same for the correlation of the values.
    """

    observations: int
    clusters: int
    spearman: float
    low: float
    high: float
    p: float
    pearson: float
    without: dict[str, float]
    pearson_without: dict[str, float]

    @property
    def weightiest(self) -> str:
        """The cluster without which the rank correlation changes most, or is gone."""
        return _farthest(self.without, self.spearman)

    @property
    def pearson_weightiest(self) -> str:
        """The same for the correlation of the values."""
        return _farthest(self.pearson_without, self.pearson)


def _farthest(values: dict[str, float], whole: float) -> str:
    changes = {name: abs(value - whole) for name, value in values.items()}
    return max(changes, key=lambda name: np.nan_to_num(changes[name], nan=np.inf))


def correlate(
    x: Sequence[float],
    y: Sequence[float],
    clusters: Sequence[str],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Correlation:
    """Correlate ``x`` and ``y``, with an interval and a p-value that respect clusters.

    Permutations move the ``x`` of a whole cluster, in order, to another cluster of as many
    observations. That is exact if clusters of a size may be exchanged; one that is alone in its
    size keeps its place.

    Args:
        x: One number per observation.
        y: The other.
        clusters: Name of the cluster of each observation.
        draws: Bootstrap samples, and permutations.
        seed: Of the draws.

    Raises:
        InputError: If there are fewer than three clusters, or ``x`` or ``y`` does not vary or
            holds a NaN.

    Example:
        >>> found = correlate([1, 2, 3, 4, 5], [2, 4, 5, 9, 7], list("abcde"), draws=100)
        >>> round(found.spearman, 3), found.clusters
        (0.9, 5)
    """
    a, b, names = np.asarray(x, float), np.asarray(y, float), np.asarray(clusters)
    kinds, member = np.unique(names, return_inverse=True)
    if not len(a) == len(b) == len(names) or len(kinds) < FEWEST:
        raise InputError(
            f"Expected as many x, y and clusters, and {FEWEST} clusters or more; found {len(a)}, "
            f"{len(b)}, {len(names)} of {len(kinds)} clusters."
        )
    if np.isnan([a, b]).any():
        raise InputError("Expected numbers to correlate; found NaN among them. Leave it out.")
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        raise InputError("Expected x and y that vary; found one that is the same everywhere.")
    weight = 1 / np.bincount(member)[member]
    spearman = float(_spearman(a, b, weight[None])[0])
    draw = np.random.default_rng(seed)
    resampled = _spearman(a, b, cluster_resamples(member, draws, draw) * weight)
    low, high = np.nanquantile(resampled, [0.025, 0.975])  # nothing varies in a few of them
    ranks_a, ranks_b = (_ranks(values, weight[None])[0] for values in (a, b))
    moved = [ranks_a[order] for order in cluster_permutations(member, draws, draw)]
    null = _pearson(np.array(moved), ranks_b[None], weight[None])
    beyond = int((np.abs(null) >= abs(spearman) - 1e-12).sum())
    left_out = (1.0 - np.eye(len(kinds))[:, member]) * weight
    without = {"ranks": _spearman(a, b, left_out), "values": _pearson(a[None], b[None], left_out)}
    by_name = {
        kind: dict(zip(kinds.tolist(), found.tolist(), strict=True))
        for kind, found in without.items()
    }
    return Correlation(
        observations=len(a),
        clusters=len(kinds),
        spearman=spearman,
        low=float(low),
        high=float(high),
        p=(1 + beyond) / (1 + draws),
        pearson=float(_pearson(a[None], b[None], weight[None])[0]),
        without=by_name["ranks"],
        pearson_without=by_name["values"],
    )


def cluster_resamples(
    member: npt.NDArray[np.int64], draws: int, draw: np.random.Generator
) -> Array:
    """Counts of each observation in each bootstrap sample, ``[draws, n]``: clusters are drawn with
    replacement, and come with all their observations."""
    kinds = int(member.max()) + 1
    counts = draw.multinomial(kinds, np.full(kinds, 1 / kinds), size=draws)
    return counts[:, member].astype(float)


def cluster_permutations(
    member: npt.NDArray[np.int64], draws: int, draw: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Orders of the observations, ``[draws, n]``, that exchange whole clusters of one size."""
    places = [np.flatnonzero(member == kind) for kind in range(int(member.max()) + 1)]
    orders = np.tile(np.arange(len(member)), (draws, 1))
    for size in sorted({len(place) for place in places}):
        alike = np.array([place for place in places if len(place) == size])
        shuffled = draw.permuted(np.tile(np.arange(len(alike)), (draws, 1)), axis=1)
        orders[:, alike.ravel()] = alike[shuffled].reshape(draws, -1)
    return orders


def _spearman(a: Array, b: Array, weights: Array) -> Array:
    return _pearson(_ranks(a, weights), _ranks(b, weights), weights)


def _ranks(values: Array, weights: Array) -> Array:
    """Weight of what is smaller and half the weight of what is equal, ``[draws, n]``: linear in
    the weights, so that all bootstrap samples are one product."""
    below = (values[:, None] > values).astype(float) + 0.5 * (values[:, None] == values)
    return weights @ below.T


def _pearson(a: Array, b: Array, weights: Array) -> Array:
    first, second = _centred(a, weights), _centred(b, weights)
    product = (weights * first * second).sum(-1)
    square = (weights * first**2).sum(-1) * (weights * second**2).sum(-1)
    undefined = np.full(product.shape, np.nan)  # where nothing varies
    return np.divide(product, np.sqrt(square), out=undefined, where=square > 0)


def _centred(values: Array, weights: Array) -> Array:
    """Values less their weighted mean; zero where they differ from it by rounding alone."""
    mean = (weights * values).sum(-1, keepdims=True) / weights.sum(-1, keepdims=True)
    centred = values - mean
    ours, whole = ((weights * x**2).sum(-1, keepdims=True) for x in (centred, values))
    return np.where(ours > 1e-24 * whole, centred, 0.0)
