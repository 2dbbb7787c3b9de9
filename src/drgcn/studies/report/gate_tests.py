"""Dr against the plain model and the control gates, wherever both are on record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import quantiles
from typing import Any, Final

from drgcn._format import plural
from drgcn.reporting.charts import IntervalRow, Mark, interval_pictures, interval_rows
from drgcn.reporting.page import render_words
from drgcn.reporting.tables import Table
from drgcn.stats import LEVEL, Decision, PairedTest, Sign, decide, p_words
from drgcn.studies.comparison import PAIRS, Pair, differences, summarize
from drgcn.studies.records import RunRecord
from drgcn.studies.report.tables import (
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
_CONTROLS: Final = ("static", "constant")
# Of more settings than these the middle half is told.
_HANDFUL: Final = 4
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

    @property
    def setting(self) -> str:
        """Data, split and model in one line."""
        return f"{self.dataset}, {self.split}: {self.model}"


@dataclass(frozen=True)
class Family:
    """Dr against one other row, wherever both are on record, judged together.

    Attributes:
        against: Gate of the other row.
        tests: The comparisons.
        apart: Settings whose two rows are of different builds, and not compared.
    """

    against: str | None
    tests: tuple[GateTest, ...]
    apart: tuple[str, ...]

    level = LEVEL

    @property
    def other(self) -> str:
        """The other row in words."""
        return BASELINES[self.against]

    @property
    def real(self) -> list[GateTest]:
        """Comparisons on data that was not made up."""
        return [one for one in self.tests if not one.synthetic]

    def count(self, sign: Sign, *, real: bool = False) -> int:
        """Count the comparisons of a sign; of real data alone, if asked."""
        return sum(one.sign == sign for one in (self.real if real else self.tests))

    @property
    def correction(self) -> str:
        """Test and correction in words, of a family that is not empty."""
        return self.tests[0].decision.correction

    @property
    def middle(self) -> list[float]:
        """Quartiles of the gains; empty for a handful, of which each can be looked at."""
        gains = [one.test.gain.mean for one in self._known]
        return quantiles(gains, n=4, method="inclusive") if len(gains) > _HANDFUL else []

    @property
    def best(self) -> GateTest:
        """The comparison with the greatest gain."""
        return max(self._known, key=lambda one: one.test.gain.mean)

    @property
    def worst(self) -> GateTest:
        """The comparison with the greatest loss."""
        return min(self._known, key=lambda one: one.test.gain.mean)

    @property
    def _known(self) -> list[GateTest]:
        return [one for one in self.tests if math.isfinite(one.test.gain.mean)]

    @property
    def fewest_seeds(self) -> int:
        """The least number of seeds of a comparison."""
        return min(one.test.seeds for one in self.tests)

    @property
    def least_flip(self) -> float:
        """The least p-value that the sign-flip test of so few seeds can have."""
        return float(2.0 ** (1 - self.fewest_seeds))


def families(records: Sequence[RunRecord]) -> dict[str | None, Family]:
    """Return the comparisons of Dr with each other row, a family each."""
    return {
        against: Family(
            against, tuple(gate_tests(records, against)), tuple(uncompared(records, against))
        )
        for against in BASELINES
    }


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


def gate_test_table(family: Family) -> Table:
    """The comparisons of a family that is not empty, the greatest gain first."""
    tests = sorted(family.tests, key=lambda one: -one.test.gain.mean)
    rows = [
        (
            one.setting,
            str(one.test.gain),
            *map(p_words, (one.decision.p_holm, one.decision.flip_holm)),
            str(one.test.seeds),
            one.sign + ("" if one.decision.agreed else "; flip differs"),
        )
        for one in tests
    ]
    return Table(
        name=f"dr-{family.other.split()[0]}",
        title=f"Dr against the {family.other}",
        heads=_HEADS,
        rows=tuple(rows),
        notes=tuple(words("family_note", family=family)),
        left=1,
        kinds=tuple(_KINDS[one.sign] for one in tests),
        pictures=tuple(interval_pictures([one.test.gain for one in tests])),
    )


def apart_table(every: Sequence[Family]) -> Table | None:
    """Settings that some family does not compare, as its two rows are of two builds."""
    others: dict[str, list[str]] = {}
    for family in every:
        for setting in family.apart:
            others.setdefault(setting, []).append(family.other)
    if not others:
        return None
    return Table(
        name="two-builds",
        title=f"{plural(len(others), 'setting')} with rows of two builds",
        heads=("setting", "of another build than Dr"),
        rows=tuple((setting, ", ".join(names)) for setting, names in others.items()),
        notes=tuple(words("two_builds")),
        folded=True,
    )


@dataclass(frozen=True)
class GainRow:
    """Gains of each gate over the plain model in one setting.

    Attributes:
        test: Dr against plain.
        controls: The same of each gate that is blind to data, or why there is none.
    """

    test: GateTest
    controls: Mapping[str, Decision | str]


def gain_rows(records: Sequence[RunRecord]) -> list[GainRow]:
    """All settings in which Dr can be compared with plain, the greatest gain first."""
    groups = gate_groups(records)
    found = []
    for rows, decided in zip(groups, decide_groups(groups), strict=True):
        over_plain = decided.get(("dr", None))
        if over_plain is not None and math.isfinite(over_plain.test.gain.low):
            controls: dict[str, Decision | str] = {}
            for gate in _CONTROLS:
                missing = "two builds" if gate in rows else "not run"
                controls[gate] = decided.get((gate, None), missing)
            found.append(GainRow(_gate_test(rows["dr"], over_plain), controls))
    return sorted(found, key=lambda row: -row.test.test.gain.mean)


def panel_sizes(rows: Sequence[GainRow]) -> list[int]:
    """Number of comparisons in the family of each panel that is drawn."""
    sizes = [rows[0].test.decision.family]
    for gate in _drawn(rows):
        decided = [row.controls[gate] for row in rows]
        sizes.append(max((one.family for one in decided if isinstance(one, Decision)), default=0))
    return sizes


def gain_rows_chart(rows: Sequence[GainRow], *, phone: bool = False) -> str:
    """Draw the gain of Dr and of both controls over plain, setting by setting."""
    controls = _drawn(rows)
    drawn = [
        IntervalRow(
            row.test.setting,
            [
                _marks(row.test.decision, row.test.setting),
                *(_marks(row.controls[gate], row.test.setting) for gate in controls),
            ],
        )
        for row in rows
    ]
    panels = [
        "Dr - plain, points",
        *(f"{gate}{' gate' * (not phone)} - plain" for gate in controls),
    ]
    signs = [row.test.sign for row in rows]
    alt = (
        f"Gain of Dr over plain with its 95 % interval in {len(rows)} settings, sorted, from "
        f"{rows[0].test.test.gain.mean:+.2f} to {rows[-1].test.test.gain.mean:+.2f} points: "
        f"{signs.count('up')} surely up, {signs.count('down')} surely down, "
        f"{signs.count('unsure')} not sure. The numbers are in the tables below."
    )
    return interval_rows(drawn, panels, alt, phone=phone)


def _drawn(rows: Sequence[GainRow]) -> list[str]:
    """Controls of which there is more to show than that they were not run."""
    return [gate for gate in _CONTROLS if any(row.controls[gate] != "not run" for row in rows)]


def _marks(found: Decision | str, setting: str) -> list[Mark] | str:
    if isinstance(found, str):
        return found
    if math.isnan(found.test.gain.mean):
        return "no number"
    return [Mark(found.test.gain, found.sign, f"{setting}: {found.test.gain}")]


def words(macro: str, **values: Any) -> list[str]:
    """Return the lines of a macro of the report's sentences."""
    return render_words(__package__, "words.txt.jinja", macro, **values)
