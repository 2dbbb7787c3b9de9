"""What the study of gains found, small enough to travel with the package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drgcn.studies.gain.study import GainStudy


@dataclass(frozen=True)
class GainEvidence:
    """The size of the study, and its rank correlations with the gain of Dr.

    Attributes:
        cells: Settings (dataset, split, scaling) compared.
        clusters: Datasets they belong to.
        gained: Datasets with a setting in which Dr surely gained.
        lost: The same for a sure loss.
        correlations: By predictor: ``words``, ``spearman``, ``low``, ``high``, ``p_holm``.
    """

    cells: int
    clusters: int
    gained: int
    lost: int
    correlations: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, study: GainStudy) -> GainEvidence:
        """The evidence of a study."""
        return cls(
            cells=len(study.real),
            clusters=len(study.mean_gains),
            gained=len(study.gained),
            lost=len(study.lost),
            correlations={
                found.predictor.name: {
                    "words": found.predictor.words,
                    "spearman": round(found.correlation.spearman, 2),
                    "low": round(found.correlation.low, 2),
                    "high": round(found.correlation.high, 2),
                    "p_holm": round(found.p_holm, 3),
                }
                for found in study.findings
            },
        )

    @property
    def words(self) -> str:
        """What was found, in one sentence; empty if nothing was correlated."""
        if not self.correlations:
            return ""
        found = self.correlations.values()
        sure = [
            f"{c['words']} ({c['spearman']:+.2f} [{c['low']:+.2f}, {c['high']:+.2f}])"
            for c in found
            if c["p_holm"] < 0.05
        ]
        size = f"Over {self.cells} settings of GCN on {self.clusters} datasets"
        if sure:
            return (
                f"{size}, the gain of Dr goes surely together with {' and '.join(sure)}: rank "
                f"correlations with 95 % intervals over datasets, of {len(found)} looked at."
            )
        ranks = [c["spearman"] for c in found]
        return (
            f"{size}, the gain of Dr goes surely together with none of "
            f"{'; '.join(c['words'] for c in found)}: rank correlations lie between "
            f"{min(ranks):+.2f} and {max(ranks):+.2f}, their 95 % intervals over datasets between "
            f"{min(c['low'] for c in found):+.2f} and {max(c['high'] for c in found):+.2f}."
        )
