"""Dr against the plain model and the control gates, wherever both are on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from drgcn.studies.comparison import Results, summarize
from drgcn.studies.gain.cluster_correlation import holm
from drgcn.studies.report.paired_test import PairedTest, paired_test
from drgcn.studies.report.tables import Row, data_name, gate_groups, row_name
from drgcn.studies.run_record import RunRecord

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
