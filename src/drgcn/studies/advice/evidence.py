"""Run records about Dr, small enough to travel with the package, and in words.

``python -m drgcn.studies.advice.evidence results`` writes the file anew; no number in it is typed.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from drgcn._format import plural
from drgcn._io import write_whole
from drgcn.errors import InputError
from drgcn.stats import LEVEL, Sign, correction_words
from drgcn.studies.advice.feature_numbers import FILE as MEASURES
from drgcn.studies.advice.feature_numbers import load_measures
from drgcn.studies.advice.gain import GainStudy, study
from drgcn.studies.experiment import unusual
from drgcn.studies.records import RunRecord, load_records
from drgcn.studies.report.gate_tests import decide_groups
from drgcn.studies.report.tables import gate_groups

_WORDS = {"standard": "standardising", "row": "row normalisation"}
# A gate with this share of its entries at either end is more switch than gate.
_MOSTLY_STUCK = 0.5
_FILE = "evidence.json"
# Written by docs/make_gates.py, once the study of gates has records.
_STUDY = "gate_study.json"


def summary(comparisons: Sequence[Comparison]) -> str:
    """Sum up the comparisons on real data, in plain words."""
    correction = correction_of(comparisons)
    comparisons = [c for c in comparisons if not c.features.startswith("generated")]
    if not comparisons:
        return "There are no recorded comparisons to go by."
    scaled = [c for c in comparisons if c.scaled]
    up, down = (sum(c.sign == sign for c in scaled) for sign in ("up", "down"))
    sentences = [
        f"On record are {len(scaled)} comparisons on {len({c.dataset for c in scaled})} real "
        f"datasets (some of them many times: other splits, other models) with features that "
        f"were row-normalised or standardised: in {up} of them Dr surely gained, in {down} it "
        f"surely lost, in {len(scaled) - up - down} it made no sure difference "
        f"({correction})."
    ]
    unscaled = [c for c in comparisons if not c.scaled]
    if unscaled:
        sentences.append(
            f"On features left as they were, of {len(unscaled)} comparisons on "
            f"{len({c.dataset for c in unscaled})} datasets, Dr surely gained in "
            f"{sum(c.sign == 'up' for c in unscaled)} and lost in "
            f"{sum(c.sign == 'down' for c in unscaled)}."
        )
    top = max(comparisons, key=lambda c: c.low)
    if top.sign == "up" and not top.scaled:
        sentences.append(
            f"The surest gain, {top.words}, is on {top.dataset} ({top.model}, {top.features} "
            f"features) with features left unscaled."
        )
        place = (top.dataset, top.split, top.model, top.features)
        again = [c for c in scaled if (c.dataset, c.split, c.model, c.features) == place]
        sentences += [
            f"With the same features after {_WORDS[c.normalize]} it is {c.words}." for c in again
        ]
    return " ".join(sentences)


def counted(comparisons: Sequence[Comparison], scaled: bool) -> str:
    """Count the sure gains and losses of Dr on real features of one kind, in one sentence."""
    kind = "scaled" if scaled else "left as they were"
    found = [
        c for c in comparisons if c.scaled == scaled and not c.features.startswith("generated")
    ]
    up, down = (sum(c.sign == sign for c in found) for sign in ("up", "down"))
    datasets = plural(len({c.dataset for c in found}), "dataset")
    return (
        f"On record with features {kind}: Dr surely gained in {up} and surely lost in {down} of "
        f"{plural(len(found), 'comparison')} on {datasets}."
    )


def correction_of(comparisons: Sequence[Comparison]) -> str:
    """The test behind the p-values of all comparisons, and its correction, in words."""
    return correction_words(sum(one.p_holm is not None for one in comparisons))


def raw_against_standard(comparisons: Sequence[Comparison]) -> str:
    """Losses on raw features that leave most of a gate stuck, beside the same features
    standardised; empty if no such pair is on record."""
    found = []
    for raw in comparisons:
        if raw.normalize != "none" or (raw.saturation or 0) < _MOSTLY_STUCK:
            continue
        place = (raw.dataset, raw.split, raw.model, raw.features, "standard")
        found += [
            f"on {raw.dataset} ({raw.model}) with raw features Dr made {raw.words}{_stuck(raw)}, "
            f"after standardising {after.words}{_stuck(after)}"
            for after in comparisons
            if (after.dataset, after.split, after.model, after.features, after.normalize) == place
        ]
    return f"On record: {'; '.join(found)}." if found else ""


def _stuck(comparison: Comparison) -> str:
    share = comparison.saturation
    return (
        "" if share is None else f" ({100 * share:.0f} % of its first gate stuck after training)"
    )


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
    def short(self) -> str:
        """The finding without its numbers; empty if nothing was correlated."""
        sure = [c["words"] for c in self.correlations.values() if c["p_holm"] < LEVEL]
        if not self.correlations:
            return ""
        if sure:
            return f"Of these numbers, {' and '.join(sure)} are surely related to a gain."
        return "None of these numbers is surely related to a gain: compare over seeds to decide."

    @property
    def words(self) -> str:
        """The finding in one sentence; empty if nothing was correlated."""
        if not self.correlations:
            return ""
        found = self.correlations.values()
        sure = [
            f"{c['words']} ({c['spearman']:+.2f} [{c['low']:+.2f}, {c['high']:+.2f}])"
            for c in found
            if c["p_holm"] < LEVEL
        ]
        size = f"Over {self.cells} settings of GCN on {self.clusters} datasets"
        if sure:
            return (
                f"{size}, the gain of Dr is surely correlated with {' and '.join(sure)}: rank "
                f"correlations with 95 % intervals over datasets, of {len(found)} looked at."
            )
        ranks = [c["spearman"] for c in found]
        return (
            f"{size}, the gain of Dr is surely correlated with none of "
            f"{'; '.join(c['words'] for c in found)}: rank correlations lie between "
            f"{min(ranks):+.2f} and {max(ranks):+.2f}, their 95 % intervals over datasets between "
            f"{min(c['low'] for c in found):+.2f} and {max(c['high'] for c in found):+.2f}."
        )


@dataclass(frozen=True)
class Comparison:
    """Dr against the plain model on one dataset, paired by seed, in points of accuracy.

    Attributes:
        dataset: Name of the dataset.
        split: Its split.
        normalize: What was done to the features: ``row``, ``standard`` or ``none``.
        features: Where they came from.
        model: The model without Dr, with what departs from its usual training.
        seeds: Seeds compared.
        gain: Mean difference.
        low: Lower end of its 95 % interval.
        high: Upper end.
        saturation: Share of entries of the first Dr gate at either end after training, mean over
            seeds; ``None`` where it was not recorded.
        p_holm: P-value of the paired t-test, corrected by Holm's method over all comparisons of
            the evidence; ``None`` where fewer than two seeds allow no test.
    """

    dataset: str
    split: str
    normalize: str
    features: str
    model: str
    seeds: int
    gain: float
    low: float
    high: float
    saturation: float | None = None
    p_holm: float | None = None

    @property
    def sign(self) -> Sign:
        """The direction in which Dr surely differs from the plain model."""
        if self.p_holm is None or self.p_holm >= LEVEL:
            return "unsure"
        return "up" if self.gain > 0 else "down"

    @property
    def scaled(self) -> bool:
        """True if features were brought to a common scale before training."""
        return self.normalize != "none"

    @property
    def words(self) -> str:
        """The gain with its interval."""
        return f"{self.gain:+.1f} points [{self.low:+.1f}, {self.high:+.1f}]"


@dataclass(frozen=True)
class Evidence:
    """All comparisons on record, and the study of what goes together with a gain."""

    comparisons: tuple[Comparison, ...]
    study: GainEvidence


def gather(records: Sequence[RunRecord]) -> tuple[Comparison, ...]:
    """Every pair of rows in some records that differ in the Dr gate alone."""
    groups = gate_groups(records)
    found = []
    for rows, decided in zip(groups, decide_groups(groups), strict=True):
        decision = decided.get(("dr", None))
        if decision is None:
            continue
        (record, _), (_, dr) = rows[None], rows["dr"]
        over = decision.test.gain
        label = replace(record.experiment, reweight=None).label
        departs = unusual(record.experiment)
        stuck = [result.saturation[0] for result in dr.values() if result.saturation]
        found.append(
            Comparison(
                dataset=record.data["name"],
                split=record.data["split"],
                normalize=record.data["normalize"],
                features=record.data["feature_source"],
                model=f"{label} ({departs})" if departs else label,
                seeds=decision.test.seeds,
                gain=round(over.mean, 2),
                low=round(over.low, 2),
                high=round(over.high, 2),
                saturation=round(sum(stuck) / len(stuck), 3) if stuck else None,
                p_holm=None if math.isnan(decision.p_holm) else round(decision.p_holm, 6),
            )
        )
    return tuple(found)


def of_folder(folder: Path) -> Evidence:
    """The evidence of a folder of records, with the measures of features beside them."""
    records = load_records(folder)
    measures = load_measures(folder / MEASURES)
    return Evidence(gather(records), GainEvidence.of(study(records, measures)))


def dumps(evidence: Evidence) -> str:
    """JSON, one comparison and one correlation a line."""
    comparisons = [f"    {json.dumps(asdict(each))}" for each in evidence.comparisons]
    found = asdict(evidence.study)
    correlations = [
        f"      {json.dumps(name)}: {json.dumps(each)}"
        for name, each in found.pop("correlations").items()
    ]
    counts = [f"    {json.dumps(name)}: {value}," for name, value in found.items()]
    lines = ["{", '  "comparisons": [', ",\n".join(comparisons), "  ],", '  "study": {', *counts]
    lines += ['    "correlations": {', ",\n".join(correlations), "    }", "  }", "}"]
    return "\n".join(lines) + "\n"


@cache
def packaged() -> Evidence:
    """The evidence that came with the package."""
    raw = json.loads(resources.files("drgcn.studies.advice").joinpath(_FILE).read_text("utf-8"))
    comparisons = tuple(Comparison(**entry) for entry in raw["comparisons"])
    return Evidence(comparisons, GainEvidence(**raw["study"]))


@cache
def gate_study() -> tuple[str, ...]:
    """Return the answer of the study of gates in three lines; none before it was run."""
    file = resources.files("drgcn.studies.advice").joinpath(_STUDY)
    return tuple(json.loads(file.read_text("utf-8"))["lines"]) if file.is_file() else ()


def main() -> None:
    """Write the packaged file from a folder of records."""
    if len(sys.argv) != 2:
        raise InputError("Expected the folder of the records, as in: evidence results")
    text = dumps(of_folder(Path(sys.argv[1])))
    write_whole(Path(__file__).parent / _FILE, text)


if __name__ == "__main__":
    main()
