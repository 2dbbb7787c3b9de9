"""What the run records say about Dr, small enough to travel with the package.

``python -m drgcn.studies.evidence results`` writes the file anew; no number in it is typed.
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
from drgcn.studies.recipes import unusual
from drgcn.studies.run_record import RunRecord, load_records
from drgcn.studies.tables import gate_groups

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

    @property
    def scaled(self) -> bool:
        """Whether features were brought to a common scale before training."""
        return self.normalize != "none"

    @property
    def words(self) -> str:
        """The gain with its interval."""
        return f"{self.gain:+.1f} points [{self.low:+.1f}, {self.high:+.1f}]"


def gather(records: Sequence[RunRecord]) -> list[Comparison]:
    """Every pair of rows in some records that differ in the Dr gate alone."""
    found = []
    for rows in gate_groups(records):
        if not {None, "dr"} <= rows.keys():
            continue
        (record, plain), (_, dr) = rows[None], rows["dr"]
        over = gain(dr, plain)
        label = replace(record.experiment, reweight=None).label
        departs = unusual(record.experiment)
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
            )
        )
    return found


def dumps(comparisons: Sequence[Comparison]) -> str:
    """JSON, one comparison a line."""
    lines = [f"  {json.dumps(asdict(comparison))}" for comparison in comparisons]
    return "[\n" + ",\n".join(lines) + "\n]\n"


@cache
def packaged() -> tuple[Comparison, ...]:
    """The comparisons that came with the package."""
    text = resources.files("drgcn.studies").joinpath(_FILE).read_text("utf-8")
    return tuple(Comparison(**entry) for entry in json.loads(text))


def summary(comparisons: Sequence[Comparison]) -> str:
    """What the comparisons say, in plain words."""
    if not comparisons:
        return "There are no recorded comparisons to go by."
    scaled = [c for c in comparisons if c.scaled]
    up = sum(c.low > 0 for c in scaled)
    down = sum(c.high < 0 for c in scaled)
    sentences = [
        f"On record are {len(scaled)} comparisons on features that were row-normalised or "
        f"standardised: in {up} of them Dr surely gained, in {down} it surely lost, in "
        f"{len(scaled) - up - down} it made no sure difference (95 % intervals over seeds; one "
        f"in twenty would look sure by chance)."
    ]
    unscaled = [c for c in comparisons if not c.scaled]
    if unscaled:
        sentences.append(
            f"On features left as they were, of {len(unscaled)} comparisons, Dr surely gained in "
            f"{sum(c.low > 0 for c in unscaled)} and lost in {sum(c.high < 0 for c in unscaled)}."
        )
    top = max(comparisons, key=lambda c: c.low)
    if top.low > 0 and not top.scaled:
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


_WORDS = {"standard": "standardising", "row": "row normalisation"}


def main() -> None:
    """Writes the packaged file from a folder of records."""
    if len(sys.argv) != 2:
        raise InputError("Expected the folder of the records, as in: evidence results")
    comparisons = gather(load_records(Path(sys.argv[1])))
    (Path(__file__).parent / _FILE).write_text(dumps(comparisons), encoding="utf-8")


if __name__ == "__main__":
    main()
