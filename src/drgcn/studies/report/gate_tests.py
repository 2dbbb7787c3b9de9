"""Dr against the plain model and the control gates, wherever both are on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from drgcn.reporting.charts import interval_pictures
from drgcn.reporting.tables import Table
from drgcn.stats import LEVEL, Decision, PairedTest, Sign, decide, p_words
from drgcn.studies.comparison import PAIRS, Pair, differences, summarize
from drgcn.studies.records import RunRecord
from drgcn.studies.report.tables import (
    TWO_BUILDS,
    Row,
    data_name,
    gate_groups,
    one_build,
    row_name,
)

#: What Dr is held against, by the gate of the other row.
BASELINES: Final[Mapping[str | None, str]] = {
    None: "plain model",
    "static": "static gate",
    "constant": "constant gate",
}
_HEADS: Final = (
    "setting",
    "difference [95 %]",
    "p (t, Holm)",
    "p (flip, Holm)",
    "seeds",
    "Dr is",
)
_KINDS: Final = {"up": "above", "down": "below", "unsure": "unsure"}


@dataclass(frozen=True)
class GateTest:
    """Dr against one other row: the same data, model, training, seeds and build.

    Attributes:
        dataset: Name of the dataset, with what sets its features apart.
        split: Its split.
        model: The model without a gate, with what departs from its usual training.
        synthetic: Whether the data was made up.
        decision: The comparison, judged within its family.
        name: The dataset by its name alone, which is its cluster.
        k: Learnt K of the Dr row, layer by layer, mean over seeds.
    """

    dataset: str
    split: str
    model: str
    synthetic: bool
    decision: Decision
    name: str
    k: tuple[float, ...]

    @property
    def test(self) -> PairedTest:
        """The comparison by itself."""
        return self.decision.test

    @property
    def sign(self) -> Sign:
        """The direction in which Dr surely differs."""
        return self.decision.sign


def gate_tests(records: Sequence[RunRecord], against: str | None) -> list[GateTest]:
    """All comparisons of Dr with one other row, judged as one family.

    Args:
        records: Run records.
        against: Gate of the other row: ``None`` (plain), ``static`` or ``constant``.
    """
    groups = gate_groups(records)
    return [
        _gate_test(groups[place]["dr"], decision)
        for place, decision in _family(groups, ("dr", against)).items()
        if decision.test.seeds > 1
    ]


def uncompared(records: Sequence[RunRecord], against: str | None) -> list[str]:
    """Settings with Dr and one other row on record, but by different builds."""
    found = []
    for rows in gate_groups(records):
        if {"dr", against} <= rows.keys() and not one_build(rows["dr"], rows[against]):
            record = rows["dr"][0]
            found.append(f"{data_name(record)}, {record.data['split']}: {_plain_name(record)}")
    return found


def decide_groups(groups: Sequence[Mapping[str | None, Row]]) -> list[dict[Pair, Decision]]:
    """Judge every pair of rows in groups that are shown on one page.

    Each pair of gates is a family over all groups, the one that :func:`gate_tests` shows. Pairs
    of rows of different builds are left out.
    """
    families = {pair: _family(groups, pair) for pair in PAIRS}
    return [
        {pair: family[place] for pair, family in families.items() if place in family}
        for place in range(len(groups))
    ]


def _family(groups: Sequence[Mapping[str | None, Row]], pair: Pair) -> dict[int, Decision]:
    """Decisions on one pair of gates, by the place of the group."""
    gate, other = pair
    places = [
        place
        for place, rows in enumerate(groups)
        if {gate, other} <= rows.keys() and one_build(rows[gate], rows[other])
    ]
    family = decide([differences(groups[p][gate][1], groups[p][other][1]) for p in places])
    return dict(zip(places, family, strict=True))


def counts(tests: Sequence[GateTest]) -> dict[Sign, int]:
    """Count the comparisons by their sign."""
    found: dict[Sign, int] = {"up": 0, "down": 0, "unsure": 0}
    for test in tests:
        found[test.sign] += 1
    return found


def _gate_test(row: Row, decision: Decision) -> GateTest:
    record, seeds = row
    return GateTest(
        dataset=data_name(record),
        split=record.data["split"],
        model=_plain_name(record),
        synthetic=str(record.data.get("feature_source", "")).startswith("generated"),
        decision=decision,
        name=str(record.data["name"]),
        k=summarize(seeds).k,
    )


def _plain_name(record: RunRecord) -> str:
    return row_name(replace(record, experiment=replace(record.experiment, reweight=None)))


def gate_test_table(tests: Sequence[GateTest], against: str | None) -> Table:
    """One family: Dr against one other row, wherever both are on record."""
    name = BASELINES[against]
    rows = [
        (
            f"{one.dataset}, {one.split}: {one.model}",
            str(one.test.gain),
            *map(p_words, (one.decision.p_holm, one.decision.flip_holm)),
            str(one.test.seeds),
            one.sign + ("" if one.decision.agreed else "; flip differs"),
        )
        for one in tests
    ]
    return Table(
        name=f"dr-{name.split()[0]}",
        title=f"Dr against {_article(against)}",
        heads=_HEADS,
        rows=tuple(rows),
        notes=(family_words(tests),),
        left=1,
        kinds=tuple(_KINDS[one.sign] for one in tests),
        pictures=tuple(interval_pictures([one.test.gain for one in tests])),
    )


def family_words(tests: Sequence[GateTest]) -> str:
    """Test, correction and check of a family that is not empty."""
    short = min(one.test.seeds for one in tests)
    words = (
        f"Over seeds that both rows have: {tests[0].decision.correction}; sure is a corrected p "
        f"below {LEVEL}. Intervals are of one comparison each, not corrected. The sign-flip test "
        f"(flip) assumes no normal distribution, and is corrected "
        f"the same way: it stands there as a check, and the last column says where it differs."
    )
    if 2.0 ** (1 - short) * len(tests) > LEVEL:
        words += f" Over {short} seeds it cannot fall below {2.0 ** (1 - short):.2g} by itself."
    return words


def count_words(tests: Sequence[GateTest], against: str | None) -> str:
    """The outcome of a family that is not empty, in one sentence."""
    found = counts(tests)
    real = [one for one in tests if not one.synthetic]
    words = (
        f"Dr against {_article(against)} ({tests[0].decision.correction}): Dr is surely up in "
        f"{found['up']}, surely down in {found['down']}, and makes no sure difference in "
        f"{found['unsure']}"
    )
    if len(real) < len(tests) and found["up"] + found["down"]:
        of_real = counts(real)
        words += (
            f" (without made-up data: up in {of_real['up']}, down in {of_real['down']}, of "
            f"{len(real)})"
        )
    return words + "."


def uncompared_words(settings: Sequence[str], against: str | None) -> str:
    """Name the settings that :func:`uncompared` found, in one sentence."""
    return f"Dr against {_article(against)}, {TWO_BUILDS}: {'; '.join(settings)}."


def _article(against: str | None) -> str:
    return f"the {BASELINES[against]}"
