"""Does K, or anything cheap about the features, say when Dr helps? Records against measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from drgcn.studies.gain.cell import Cell, join
from drgcn.studies.gain.cluster_correlation import DRAWS, FEWEST, Correlation, correlate, holm
from drgcn.studies.gain.feature_measures import FeatureMeasures
from drgcn.studies.gain.predictors import PREDICTORS, Predictor
from drgcn.studies.run_record import RunRecord


@dataclass(frozen=True)
class Finding:
    """The correlation of the gain with one predictor, its p-value corrected for all of them."""

    predictor: Predictor
    correlation: Correlation
    p_holm: float

    @property
    def sure(self) -> bool:
        """Whether it stands after the correction, at 5 %."""
        return self.p_holm < 0.05


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
        return tuple(sorted({c.dataset for c in self.real if c.over_plain.low > 0}))

    @property
    def lost(self) -> tuple[str, ...]:
        """Clusters with a cell in which Dr surely lost."""
        return tuple(sorted({c.dataset for c in self.real if c.over_plain.high < 0}))


def study(
    records: Sequence[RunRecord], measures: Sequence[FeatureMeasures], *, draws: int = DRAWS
) -> GainStudy:
    """Joins records and measures, see :func:`drgcn.studies.gain.cell.join`, and correlates.

    Args:
        records: Run records; those of GCN, plain and with Dr, are used.
        measures: The numbers of their features.
        draws: See :func:`drgcn.studies.gain.cluster_correlation.correlate`.
    """
    cells, unmeasured = join(records, measures)
    real = [cell for cell in cells if not cell.synthetic]
    return GainStudy(tuple(cells), _findings(real, draws), tuple(unmeasured))


def _findings(cells: Sequence[Cell], draws: int) -> tuple[Finding, ...]:
    """One for each predictor that varies over datasets enough to correlate at all."""
    found = []
    for predictor in PREDICTORS:
        pairs = [(predictor.value(cell), cell) for cell in cells]
        known = [(value, cell) for value, cell in pairs if value is not None]
        values = [value for value, _ in known]
        gains = [cell.over_plain.mean for _, cell in known]
        names = [cell.dataset for _, cell in known]
        if len(set(names)) >= FEWEST and len(set(values)) > 1 and len(set(gains)) > 1:
            found.append((predictor, correlate(values, gains, names, draws=draws)))
    corrected = holm([correlation.p for _, correlation in found])
    return tuple(Finding(*pair, p) for pair, p in zip(found, corrected, strict=True))
