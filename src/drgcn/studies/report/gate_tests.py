"""Dr against the plain model and the control gates, wherever both are on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from scipy import stats

from drgcn.errors import InputError
from drgcn.reporting.charts import interval_pictures
from drgcn.reporting.tables import Table
from drgcn.studies.advice.correlation import holm
from drgcn.studies.comparison import Gain, Results, mean_interval, summarize
from drgcn.studies.records import RunRecord
from drgcn.studies.report.tables import Row, data_name, gate_groups, row_name

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


Sign = Literal["up", "down", "unsure"]

#: What Dr is held against, by the gate of the other row.
BASELINES: Final[Mapping[str | None, str]] = {
    None: "plain",
    "static": "static gate",
    "constant": "constant gate",
}
LEVEL: Final = 0.05


@dataclass(frozen=True)
class GateTest:
    """Dr against one other row: the same data, model, training and seeds.

    Attributes:
        dataset: Name of the dataset, with what sets its features apart.
        split: Its split.
        model: The model without a gate, with what departs from its usual training.
        synthetic: Whether the data was made up.
        test: The comparison, by itself.
        p_holm: P-value of its t-test, corrected for the whole family.
        flip_holm: The same for its sign-flip test.
        name: The dataset by its name alone, which is its cluster.
        k: Learnt K of the Dr row, layer by layer, mean over seeds.
    """

    dataset: str
    split: str
    model: str
    synthetic: bool
    test: PairedTest
    p_holm: float
    flip_holm: float
    name: str
    k: tuple[float, ...]

    @property
    def sign(self) -> Sign:
        """Where Dr lies after the correction, by the t-test."""
        if self.p_holm >= LEVEL:
            return "unsure"
        return "up" if self.test.gain.mean > 0 else "down"

    @property
    def agreed(self) -> bool:
        """Whether the sign-flip test says the same of it as the t-test."""
        return (self.p_holm < LEVEL) == (self.flip_holm < LEVEL)


def gate_tests(records: Sequence[RunRecord], against: str | None) -> list[GateTest]:
    """All comparisons of Dr with one other row: a family, corrected by Holm's method.

    Args:
        records: Run records.
        against: Gate of the other row: ``None`` (plain), ``static`` or ``constant``.
    """
    pairs = [
        (rows["dr"], rows[against])
        for rows in gate_groups(records)
        if {"dr", against} <= rows.keys() and _shared(rows["dr"][1], rows[against][1]) > 1
    ]
    tests = [paired_test(dr, other) for (_, dr), (_, other) in pairs]
    corrected = holm([test.p for test in tests])
    flipped = holm([test.p_flip for test in tests])
    return [
        _gate_test(dr, test, p, flip)
        for (dr, _), test, p, flip in zip(pairs, tests, corrected, flipped, strict=True)
    ]


def counts(tests: Sequence[GateTest]) -> dict[Sign, int]:
    """How many comparisons ended in which way."""
    found: dict[Sign, int] = {"up": 0, "down": 0, "unsure": 0}
    for test in tests:
        found[test.sign] += 1
    return found


def _shared(one: Results, other: Results) -> int:
    return len(one.keys() & other.keys())


def _gate_test(row: Row, test: PairedTest, p: float, flip: float) -> GateTest:
    record, seeds = row
    plain = replace(record, experiment=replace(record.experiment, reweight=None))
    return GateTest(
        dataset=data_name(record),
        split=record.data["split"],
        model=row_name(plain),
        synthetic=str(record.data.get("feature_source", "")).startswith("generated"),
        test=test,
        p_holm=p,
        flip_holm=flip,
        name=str(record.data["name"]),
        k=summarize(seeds).k,
    )


_HEADS: Final = (
    "setting",
    *("difference [95 %]", "p (t, Holm)", "p (flip, Holm)", "seeds", "Dr is"),
)
_KINDS: Final = {"up": "above", "down": "below", "unsure": "unsure"}


def gate_test_table(tests: Sequence[GateTest], against: str | None) -> Table:
    """One family: Dr against one other row, wherever both are on record."""
    name = BASELINES[against]
    rows = [
        (
            *(f"{one.dataset}, {one.split}: {one.model}", str(one.test.gain)),
            *(p_words(one.p_holm), p_words(one.flip_holm), str(one.test.seeds)),
            one.sign + ("" if one.agreed else "; flip differs"),
        )
        for one in tests
    ]
    return Table(
        name=f"dr-{name.split()[0]}",
        title=f"Dr against {_article(against)}",
        heads=_HEADS,
        rows=tuple(rows),
        notes=(family_words(tests, against),),
        left=1,
        kinds=tuple(_KINDS[one.sign] for one in tests),
        pictures=tuple(interval_pictures([one.test.gain for one in tests])),
    )


def family_words(tests: Sequence[GateTest], against: str | None) -> str:
    """What was tested, how often, and how it is corrected."""
    short = min((one.test.seeds for one in tests), default=0)
    words = (
        f"A family of {len(tests)} paired t-tests over seeds that both rows have, corrected by "
        f"Holm's method at {100 * LEVEL:.0f} %. Intervals are of one comparison each, not "
        f"corrected. The sign-flip test (flip) assumes no normal distribution, and is corrected "
        f"the same way: it stands there as a check, and the last column says where it differs."
    )
    if tests and 2.0 ** (1 - short) * len(tests) > LEVEL:
        words += f" Over {short} seeds it cannot fall below {2.0 ** (1 - short):.2g} by itself."
    return words


def count_words(tests: Sequence[GateTest], against: str | None) -> str:
    """How a family came out, in one sentence."""
    found = counts(tests)
    real = [one for one in tests if not one.synthetic]
    words = (
        f"Dr against {_article(against)}: of {len(tests)} comparisons, corrected for their "
        f"number, Dr is surely up in {found['up']}, surely down in {found['down']}, and makes no "
        f"sure difference in {found['unsure']}"
    )
    if len(real) < len(tests) and found["up"] + found["down"]:
        of_real = counts(real)
        words += (
            f" (without made-up data: up in {of_real['up']}, down in {of_real['down']}, of "
            f"{len(real)})"
        )
    return words + "."


def p_words(p: float) -> str:
    """A p-value to two digits; small ones as a bound."""
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def _article(against: str | None) -> str:
    return "the plain model" if against is None else f"the {BASELINES[against]}"
