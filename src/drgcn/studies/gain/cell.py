"""One setting of the study of gains: what Dr did there, and what its features are like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from drgcn.errors import InputError
from drgcn.studies.comparison import Gain, gain, summarize
from drgcn.studies.gain.feature_measures import FeatureMeasures
from drgcn.studies.gain.feature_numbers import FeatureNumbers
from drgcn.studies.recipes import unusual
from drgcn.studies.report.tables import Row, data_name, gate_groups
from drgcn.studies.run_record import RunRecord


@dataclass(frozen=True)
class Cell:
    """GCN with Dr against GCN without on one dataset, split and scaling.

    Attributes:
        dataset: Name of the dataset, which is its cluster.
        title: The name with what sets its features apart.
        split: Its split.
        normalize: What was done to the features: ``row``, ``standard`` or ``none``.
        over_plain: Dr against the plain model.
        over_static: Dr against a gate that sees no data; ``None`` if that was not run.
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
    over_plain: Gain
    over_static: Gain | None
    k_1: float
    k_2: float
    saturation: float | None
    numbers: FeatureNumbers
    synthetic: bool


def join(
    records: Sequence[RunRecord], measures: Sequence[FeatureMeasures]
) -> tuple[list[Cell], list[str]]:
    """The cells of GCN, plain and with Dr, and the places that have no measures.

    Records and measures are joined by the content of the data.

    Raises:
        InputError: If the measures of a dataset are of other content than its records.
    """
    cells, unmeasured = [], []
    for rows in _comparisons(records):
        numbers = _numbers_for(rows["dr"][0], measures)
        if numbers is None:
            unmeasured.append(_place_words(rows["dr"][0].data))
        else:
            cells.append(_cell(rows, numbers))
    return sorted(cells, key=lambda c: (c.dataset, c.split, c.normalize)), sorted(unmeasured)


def _comparisons(records: Sequence[RunRecord]) -> list[dict[str | None, Row]]:
    """Plain GCN and Dr on each data, trained as usual where that is on record."""
    chosen: dict[str, dict[str | None, Row]] = {}
    for rows in gate_groups(records):
        record = next(iter(rows.values()))[0]
        ran = record.experiment
        if ran.model != "gcn" or ran.norm or ran.pre_activation or not {None, "dr"} <= rows.keys():
            continue
        content = record.data["content_hash"]
        if content not in chosen or not unusual(ran):
            chosen[content] = rows
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
            "python -m drgcn.studies.gain.feature_measures."
        )
    return None


def _cell(rows: dict[str | None, Row], numbers: FeatureNumbers) -> Cell:
    record, results = rows["dr"]
    k = summarize(results).k
    stuck = [result.saturation[0] for result in results.values() if result.saturation]
    return Cell(
        dataset=record.data["name"],
        title=data_name(record),
        split=record.data["split"],
        normalize=record.data["normalize"],
        over_plain=gain(results, rows[None][1]),
        over_static=gain(results, rows["static"][1]) if "static" in rows else None,
        k_1=k[0],
        k_2=k[1] if len(k) > 1 else math.nan,
        saturation=sum(stuck) / len(stuck) if stuck else None,
        numbers=numbers,
        synthetic=str(record.data["feature_source"]).startswith("generated"),
    )


def _place_words(data: dict[str, Any]) -> str:
    return f"{data['name']}, split {data['split']}, normalize {data['normalize']}"
