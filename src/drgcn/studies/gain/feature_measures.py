"""The numbers of the features of every dataset on record, in one file beside the records.

``python -m drgcn.studies.gain.feature_measures results`` writes the file anew, so that a study of
records and features can be remade where the datasets are not at hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from drgcn.data import load
from drgcn.errors import InputError, MissingDataError
from drgcn.studies.gain.feature_numbers import FeatureNumbers, feature_numbers
from drgcn.studies.run_record import RunRecord, load_records

FILE = "features.json"


@dataclass(frozen=True)
class FeatureMeasures:
    """The numbers of one dataset's features, with what says which features they were.

    Attributes:
        dataset: Name of the dataset.
        split: Its split; labels of training nodes enter ``k_disc``.
        normalize: What was done to the features: ``row``, ``standard`` or ``none``.
        feature_source: Where they came from.
        content_hash: Digest of all that a model can see of the data; the same in run records.
        numbers: The numbers, to six digits.
    """

    dataset: str
    split: str
    normalize: str
    feature_source: str
    content_hash: str
    numbers: FeatureNumbers


def measure(data: Data) -> FeatureMeasures:
    """The numbers of a graph from :func:`drgcn.load`."""
    info = data.dataset
    numbers, _ = feature_numbers(data)
    # Six digits are the same on every machine; more would be noise in a diff.
    rounded: dict[str, Any] = {
        name: float(f"{value:.6g}") if isinstance(value, float) else value
        for name, value in asdict(numbers).items()
    }
    return FeatureMeasures(
        dataset=info.name,
        split=info.split,
        normalize=info.normalize,
        feature_source=info.feature_source,
        content_hash=info.content_hash,
        numbers=FeatureNumbers(**rounded),
    )


def remake(
    records: Sequence[RunRecord], known: Sequence[FeatureMeasures] = ()
) -> tuple[list[FeatureMeasures], list[str]]:
    """The measures of all data on record, and a line for each that could not be measured.

    Args:
        records: Run records of any model.
        known: Measures to keep where the data cannot be loaded.

    Raises:
        InputError: If data loads under the name of a record but is not what the record saw.
    """
    kept = {entry.content_hash: entry for entry in known}
    found, missing = [], []
    for content_hash, facts in sorted(_data(records).items(), key=_order):
        try:
            data = _loaded(facts)
        except MissingDataError as error:
            missing.append(f"{_words(facts)}: {error}")
            found += [kept[content_hash]] if content_hash in kept else []
            continue
        found.append(measure(expect_same(data, facts)))
    return found, missing


def expect_same(data: Data, facts: Mapping[str, Any]) -> Data:
    """The data, if it is what a record saw."""
    if data.dataset.content_hash != facts["content_hash"]:
        raise InputError(
            f"Expected the data of the records, {_words(facts)} with content hash "
            f"{facts['content_hash']}; found {data.dataset.content_hash}. Point DRGCN_DATA to "
            f"the files that were trained on."
        )
    return data


def dumps(measures: Sequence[FeatureMeasures]) -> str:
    """JSON, one dataset a line."""
    lines = []
    for entry in measures:
        about = {field.name: getattr(entry, field.name) for field in fields(entry)[:-1]}
        lines.append(f"  {json.dumps(about | asdict(entry.numbers))}")
    return "[\n" + ",\n".join(lines) + "\n]\n"


def load_measures(path: Path) -> list[FeatureMeasures]:
    """Reads what :func:`dumps` wrote."""
    about = [field.name for field in fields(FeatureMeasures)[:-1]]
    try:
        return [
            FeatureMeasures(
                **{name: entry.pop(name) for name in about}, numbers=FeatureNumbers(**entry)
            )
            for entry in json.loads(path.read_text(encoding="utf-8"))
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"Expected measures of features; {path} holds none ({error}). Remake it: "
            f"python -m drgcn.studies.gain.feature_measures {path.parent}"
        ) from None


def _data(records: Sequence[RunRecord]) -> dict[str, dict[str, Any]]:
    return {record.data["content_hash"]: record.data for record in records}


def _order(item: tuple[str, Mapping[str, Any]]) -> tuple[str, str, str, str]:
    content_hash, facts = item
    return facts["name"], facts["split"], facts["normalize"], content_hash


def _loaded(facts: Mapping[str, Any]) -> Data:
    seed = facts["split_seed"]
    return load(
        facts["name"],
        split=facts["split"],
        normalize=facts["normalize"],
        offline=True,
        **({} if seed is None else {"split_seed": seed}),
        **facts["options"],
    )


def _words(facts: Mapping[str, Any]) -> str:
    return f"{facts['name']}, split {facts['split']}, normalize {facts['normalize']}"


def main() -> None:
    """Writes the file from a folder of records."""
    if len(sys.argv) != 2:
        raise InputError("Expected the folder of the records, as in: feature_measures results")
    folder = Path(sys.argv[1])
    path = folder / FILE
    known = load_measures(path) if path.exists() else []
    found, missing = remake(load_records(folder), known)
    path.write_text(dumps(found), encoding="utf-8")
    for line in missing:
        print(f"not measured: {line}", file=sys.stderr)


if __name__ == "__main__":
    main()
