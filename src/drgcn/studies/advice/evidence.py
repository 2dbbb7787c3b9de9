"""What the run records say about Dr, small enough to travel with the package.

``python -m drgcn.studies.advice.evidence results`` writes the file anew; no number in it is typed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path

from drgcn.errors import InputError
from drgcn.studies.comparison import gain
from drgcn.studies.gain.evidence import GainEvidence
from drgcn.studies.gain.feature_measures import FILE as MEASURES
from drgcn.studies.gain.feature_measures import load_measures
from drgcn.studies.gain.study import study
from drgcn.studies.recipes import unusual
from drgcn.studies.report.tables import gate_groups
from drgcn.studies.run_record import RunRecord, load_records

_FILE = "evidence.json"


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

    @property
    def scaled(self) -> bool:
        """Whether features were brought to a common scale before training."""
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
    found = []
    for rows in gate_groups(records):
        if not {None, "dr"} <= rows.keys():
            continue
        (record, plain), (_, dr) = rows[None], rows["dr"]
        over = gain(dr, plain)
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
                seeds=len(dr.keys() & plain.keys()),
                gain=round(over.mean, 2),
                low=round(over.low, 2),
                high=round(over.high, 2),
                saturation=round(sum(stuck) / len(stuck), 3) if stuck else None,
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


def main() -> None:
    """Writes the packaged file from a folder of records."""
    if len(sys.argv) != 2:
        raise InputError("Expected the folder of the records, as in: evidence results")
    text = dumps(of_folder(Path(sys.argv[1])))
    (Path(__file__).parent / _FILE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
