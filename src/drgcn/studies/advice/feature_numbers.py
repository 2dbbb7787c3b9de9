"""Numbers about features that need no training, and the file that keeps them.

``python -m drgcn.studies.advice.feature_numbers results`` writes the file anew, so that a study of
records and features can be remade where the datasets are not at hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from drgcn._io import write_whole
from drgcn.data import load
from drgcn.errors import InputError, MissingDataError, UndefinedStability
from drgcn.nn.graph import normalized_adjacency
from drgcn.reweighting import DimensionalReweighting
from drgcn.stability import (
    FeatureMoments,
    QuadraticForm,
    class_share,
    gate_saturation,
    minimal_k_in_range,
)
from drgcn.stability.measure import loudest
from drgcn.studies.records import RunRecord, load_records

# Beyond that a covariance takes more memory and time than these numbers are worth.
_WIDEST = 8192
_DRAWS = 8
FILE = "features.json"


@dataclass(frozen=True)
class FeatureNumbers:
    """Numbers about features, a graph and training labels, known before any training.

    Attributes:
        rows: Rows that were read.
        features: Feature dimensions.
        constant: Dimensions that are constant; all other numbers leave them out.
        spread: Coefficient of variation of the variances.
        loudest: Largest variance over the median of the others.
        k_std: K of giving every dimension the same variance.
        k_range_2: Least K of gates that differ by a factor of at most 2.
        k_range_4: The same for 4.
        k_disc: K of weighting dimensions by what they say of the training classes; ``None``
            without labels.
        saturation_risk: Share of gate entries at either end in a Dr block that is not trained
            yet, on the mean of these features.
    """

    rows: int
    features: int
    constant: int
    spread: float
    loudest: float
    k_std: float
    k_range_2: float
    k_range_4: float
    k_disc: float | None
    saturation_risk: float


def feature_numbers(source: Any) -> tuple[FeatureNumbers, Tensor]:
    """The numbers of some features, and the variance of every dimension.

    Args:
        source: One PyG ``Data``, or a loader of feature matrices or of such. Of a union of
            graphs (``data.graph``) only those with training nodes are read: the others are not
            known when a model is chosen.

    Raises:
        InputError: If there are no features, or more than a covariance can be made of.
        UndefinedStability: If there is nothing to reweight, see :func:`drgcn.stability_k`.
    """
    single = isinstance(source, Data)
    if single and source.x is None:
        raise InputError("Expected data with node features `x`; found none.")
    if single and (not isinstance(source.x, Tensor) or source.x.dim() != 2):
        shape = list(source.x.shape) if hasattr(source.x, "shape") else "no shape"
        raise InputError(
            f"Expected node features `x` as a tensor of shape [nodes, d]; found "
            f"{type(source.x).__name__} of {shape}. Use torch.as_tensor."
        )
    if single and source.x.size(1) > _WIDEST:
        raise InputError(
            f"Expected at most {_WIDEST} feature dimensions; found {source.x.size(1)}."
        )
    moments = FeatureMoments.from_chunks([_read(source)] if single else source)
    variance = moments.variance()
    varies = variance > 0
    if not bool(varies.any()):
        raise UndefinedStability("Nothing to reweight: every feature is constant.")
    form = QuadraticForm.of(moments.covariance()[varies][:, varies], covariance=True)
    kept = variance[varies]
    share = _class_share(source) if single else None
    numbers = FeatureNumbers(
        rows=moments.rows_seen,
        features=moments.num_features,
        constant=int((~varies).sum()),
        spread=float(kept.std(correction=0) / kept.mean()),
        loudest=loudest(kept),
        k_std=form.value(kept.rsqrt().cpu().numpy()),
        k_range_2=minimal_k_in_range(form, 2).value,
        k_range_4=minimal_k_in_range(form, 4).value,
        k_disc=None if share is None else _k_of_share(form, share[varies]),
        saturation_risk=_saturation_risk(moments.mean),
    )
    return numbers, variance


def _read(data: Data) -> Tensor:
    graph, train = data.get("graph"), data.get("train_mask")
    if graph is None or train is None or not bool(train.any()):
        return data.x
    trained = torch.isin(graph, graph[train].unique()).nonzero().flatten()
    return _dense(data.x)[trained]


def _class_share(data: Data) -> Tensor | None:
    """Shares on training nodes, after one step over the graph where there is one."""
    y = data.get("y")
    if y is not None and y.dim() == 2 and y.size(1) == 1:
        y = y[:, 0]
    if y is None or y.dim() != 1 or y.is_floating_point():
        return None
    x = data.x
    if data.edge_index is not None:
        weight = data.get("edge_weight")
        adj = normalized_adjacency(data.edge_index, data.num_nodes, edge_weight=weight)
        x = adj @ _dense(x).float()
    try:
        return class_share(x, y, data.get("train_mask"))
    except UndefinedStability:
        return None  # one class alone says nothing, nor does one node of each


def _k_of_share(form: QuadraticForm, share: Tensor) -> float | None:
    s = share.sqrt().cpu().numpy()
    return form.value(s) if s.any() else None


def _saturation_risk(mean: Tensor) -> float:
    """Mean over some initialisations of a Dr block of the share of its gate at either end."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        blocks = [DimensionalReweighting(len(mean)) for _ in range(_DRAWS)]
    with torch.no_grad():
        shares = [gate_saturation(block.from_mean(mean.cpu())) for block in blocks]
    return sum(shares) / len(shares)


def _dense(x: Tensor) -> Tensor:
    return x if x.layout == torch.strided else x.to_dense()


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
    """Read what :func:`dumps` wrote."""
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
            f"python -m drgcn.studies.advice.feature_numbers {path.parent}"
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
    """Write the file from a folder of records."""
    if len(sys.argv) != 2:
        raise InputError("Expected the folder of the records, as in: feature_measures results")
    folder = Path(sys.argv[1])
    path = folder / FILE
    known = load_measures(path) if path.exists() else []
    found, missing = remake(load_records(folder), known)
    write_whole(path, dumps(found))
    for line in missing:
        print(f"not measured: {line}", file=sys.stderr)


if __name__ == "__main__":
    main()
