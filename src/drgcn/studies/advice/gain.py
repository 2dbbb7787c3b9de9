"""The gain of Dr over many datasets, held against K and other numbers of the features."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from drgcn.errors import InputError
from drgcn.stats import (
    DRAWS,
    FEWEST,
    LEVEL,
    Correlation,
    Decision,
    Interval,
    correlate,
    holm,
)
from drgcn.studies.advice.feature_numbers import FeatureMeasures, FeatureNumbers
from drgcn.studies.comparison import Pair, summarize
from drgcn.studies.experiment import unusual
from drgcn.studies.records import RunRecord
from drgcn.studies.report.gate_tests import decide_groups
from drgcn.studies.report.tables import Row, data_name, gate_groups

Group = tuple[dict[str | None, Row], dict[Pair, Decision]]


@dataclass(frozen=True)
class Cell:
    """GCN with Dr against GCN without on one dataset, split and scaling.

    Attributes:
        dataset: Name of the dataset, which is its cluster.
        title: The name with what sets its features apart.
        split: Its split.
        normalize: What was done to the features: ``row``, ``standard`` or ``none``.
        plain: Dr against the plain model, judged within the family of all on record.
        static: The same against a gate that sees no data; ``None`` if that was not run.
        k_1: Learnt K of the first layer, mean over seeds.
        k_2: The same for the second layer.
        saturation: Share of entries of the first gate at either end after training, mean over
            seeds; ``None`` in records from before it was measured.
        numbers: What can be told from the features.
        synthetic: Whether the data was made up: shown, and left out of every correlation.
    """

    dataset: str
    title: str
    split: str
    normalize: str
    plain: Decision
    static: Decision | None
    k_1: float
    k_2: float
    saturation: float | None
    numbers: FeatureNumbers
    synthetic: bool

    @property
    def over_plain(self) -> Interval:
        """Points of Dr above the plain model."""
        return self.plain.test.gain

    @property
    def over_static(self) -> Interval | None:
        """Points of Dr above the static gate."""
        return None if self.static is None else self.static.test.gain


def join(
    records: Sequence[RunRecord], measures: Sequence[FeatureMeasures]
) -> tuple[list[Cell], list[str]]:
    """The cells of GCN, plain and with Dr, and the places that have no measures.

    Records and measures are joined by the content of the data.

    Raises:
        InputError: If the measures of a dataset are of other content than its records.
    """
    cells, unmeasured = [], []
    for rows, decided in _comparisons(records):
        numbers = _numbers_for(rows["dr"][0], measures)
        if numbers is None:
            unmeasured.append(_place_words(rows["dr"][0].data))
        else:
            cells.append(_cell(rows["dr"], decided, numbers))
    return sorted(cells, key=lambda c: (c.dataset, c.split, c.normalize)), sorted(unmeasured)


def _comparisons(records: Sequence[RunRecord]) -> list[Group]:
    """Plain GCN and Dr on each data, trained as usual where that is on record. They are judged
    within the family of all comparisons on record, as the report judges them."""
    groups = gate_groups(records)
    chosen: dict[str, Group] = {}
    for rows, decided in zip(groups, decide_groups(groups), strict=True):
        record = next(iter(rows.values()))[0]
        ran = record.experiment
        if ran.model != "gcn" or ran.norm or ran.pre_activation or ("dr", None) not in decided:
            continue
        content = record.data["content_hash"]
        if content not in chosen or not unusual(ran):
            chosen[content] = (rows, decided)
    return list(chosen.values())


def _numbers_for(record: RunRecord, measures: Sequence[FeatureMeasures]) -> FeatureNumbers | None:
    data = record.data
    place = (data["name"], data["split"], data["normalize"], data["feature_source"])
    others = []
    for entry in measures:
        if entry.content_hash == data["content_hash"]:
            return entry.numbers
        if (entry.dataset, entry.split, entry.normalize, entry.feature_source) == place:
            others.append(entry.content_hash)
    if others:
        raise InputError(
            f"Expected measures of {_place_words(data)} with content hash {data['content_hash']}; "
            f"found {', '.join(others)}. Remake them: "
            "python -m drgcn.studies.advice.feature_numbers."
        )
    return None


def _cell(row: Row, decided: dict[Pair, Decision], numbers: FeatureNumbers) -> Cell:
    record, results = row
    k = summarize(results).k
    stuck = [result.saturation[0] for result in results.values() if result.saturation]
    return Cell(
        dataset=record.data["name"],
        title=data_name(record),
        split=record.data["split"],
        normalize=record.data["normalize"],
        plain=decided["dr", None],
        static=decided.get(("dr", "static")),
        k_1=k[0],
        k_2=k[1] if len(k) > 1 else math.nan,
        saturation=sum(stuck) / len(stuck) if stuck else None,
        numbers=numbers,
        synthetic=str(record.data["feature_source"]).startswith("generated"),
    )


def _place_words(data: dict[str, Any]) -> str:
    return f"{data['name']}, split {data['split']}, normalize {data['normalize']}"


@dataclass(frozen=True)
class Predictor:
    """Something that might say when Dr helps.

    Attributes:
        name: As a field of results.
        words: In a table.
        expected: Sign of the correlation with the gain if smaller K meant more gain, as the paper
            has it; 0 where it says nothing.
        value: Its value in a cell.
    """

    name: str
    words: str
    expected: int
    value: Callable[[Cell], float | None]


PREDICTORS = (
    Predictor("k_1", "learnt K, layer 1", -1, lambda cell: cell.k_1),
    Predictor("k_range_2", "least K within a factor of 2", -1, lambda c: c.numbers.k_range_2),
    Predictor("k_disc", "K of weights by class share", -1, lambda c: c.numbers.k_disc),
    Predictor("k_std", "K of 1/std", -1, lambda c: c.numbers.k_std),
    Predictor("spread", "spread of variances", 1, lambda c: c.numbers.spread),
    Predictor("saturation_risk", "gate stuck at first", 0, lambda c: c.numbers.saturation_risk),
)


@dataclass(frozen=True)
class Finding:
    """The correlation of the gain with one predictor, its p-value corrected for all of them."""

    predictor: Predictor
    correlation: Correlation
    p_holm: float

    @property
    def sure(self) -> bool:
        """True if it stands after the correction."""
        return self.p_holm < LEVEL


@dataclass(frozen=True)
class GainStudy:
    """All cells, and what goes together with the gain over the real ones.

    Attributes:
        cells: One per dataset, split and scaling, in the order of their names.
        findings: One per predictor, those left out that are the same everywhere.
        unmeasured: Cells on record whose features were not measured, and that are left out.
    """

    cells: tuple[Cell, ...]
    findings: tuple[Finding, ...]
    unmeasured: tuple[str, ...]

    @property
    def real(self) -> tuple[Cell, ...]:
        """The cells that count: those of data that was not made up."""
        return tuple(cell for cell in self.cells if not cell.synthetic)

    @property
    def mean_gains(self) -> dict[str, float]:
        """Mean gain of every cluster."""
        gains: dict[str, list[float]] = {}
        for cell in self.real:
            gains.setdefault(cell.dataset, []).append(cell.over_plain.mean)
        return {name: sum(values) / len(values) for name, values in gains.items()}

    @property
    def sign_p(self) -> float:
        """P-value of a sign test over the clusters: do gains and losses occur equally often?"""
        signs = [value for value in self.mean_gains.values() if value != 0]
        return float(stats.binomtest(sum(value > 0 for value in signs), len(signs)).pvalue)

    @property
    def gained(self) -> tuple[str, ...]:
        """Clusters with a cell in which Dr surely gained."""
        return tuple(sorted({c.dataset for c in self.real if c.plain.sign == "up"}))

    @property
    def lost(self) -> tuple[str, ...]:
        """Clusters with a cell in which Dr surely lost."""
        return tuple(sorted({c.dataset for c in self.real if c.plain.sign == "down"}))


def study(
    records: Sequence[RunRecord], measures: Sequence[FeatureMeasures], *, draws: int = DRAWS
) -> GainStudy:
    """Join records and measures, see :func:`drgcn.studies.advice.gain.join`, and correlate.

    Args:
        records: Run records; those of GCN, plain and with Dr, are used.
        measures: The numbers of their features.
        draws: See :func:`drgcn.stats.correlate`.
    """
    cells, unmeasured = join(records, measures)
    real = [cell for cell in cells if not cell.synthetic]
    return GainStudy(tuple(cells), _findings(real, draws), tuple(unmeasured))


def _findings(cells: Sequence[Cell], draws: int) -> tuple[Finding, ...]:
    """One for each predictor that varies over datasets enough to correlate at all."""
    found = []
    for predictor in PREDICTORS:
        pairs = [(predictor.value(cell), cell) for cell in cells]
        known = [(v, cell) for v, cell in pairs if v is not None and not math.isnan(v)]
        values = [value for value, _ in known]
        gains = [cell.over_plain.mean for _, cell in known]
        names = [cell.dataset for _, cell in known]
        if len(set(names)) >= FEWEST and len(set(values)) > 1 and len(set(gains)) > 1:
            found.append((predictor, correlate(values, gains, names, draws=draws)))
    corrected = holm([correlation.p for _, correlation in found])
    return tuple(Finding(*pair, p) for pair, p in zip(found, corrected, strict=True))
