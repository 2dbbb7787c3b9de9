"""Advice for or against Dr, before or after training on some features: numbers and words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from drgcn.errors import InputError
from drgcn.stability.measure import LOUD, STANDARDISE, warning_of_scales
from drgcn.studies.advice.evidence import (
    counted,
    gate_study,
    packaged,
    raw_against_standard,
    summary,
)
from drgcn.studies.advice.feature_numbers import FeatureNumbers, feature_numbers
from drgcn.training.tracker import StabilityTracker

# Where all dimensions are alike, and where a gate starts out stuck.
_EVEN = 0.9
_STUCK = 0.01
# Nothing was done to the features, or nothing is known of it.
_RAW = ("none", None)


@dataclass(frozen=True)
class Advice(FeatureNumbers):
    """Numbers about features, what they mean in plain words, and what to look at first.

    Attributes:
        layer_k: K of each Dr block of a model; empty without one.
        layer_saturation: The same for the share of gate entries at either end.
        verdict: How far a gate could even out the variances, in one sentence.
        lines: Three sentences: the spread of variances, the features that tell the classes, and
            the runs on record.
        paragraph: What the numbers say, and what they do not.
        warnings: What is odd about the features.
        variance: The variances, in the order of the dimensions.
    """

    layer_k: tuple[float | None, ...]
    layer_saturation: tuple[float, ...]
    verdict: str
    lines: tuple[str, str, str]
    paragraph: str
    warnings: tuple[str, ...]
    variance: tuple[float, ...]

    @property
    def gate_study(self) -> tuple[str, ...]:
        """The answer of the study of gates in three lines; none before it was run."""
        return gate_study()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self) | ({"gate_study": self.gate_study} if self.gate_study else {})

    def __str__(self) -> str:
        warned = (f"warning: {words}" for words in self.warnings)
        return "\n".join([self.paragraph, *self.gate_study, *warned])


def advise(source: Any, data: Data | None = None) -> Advice:
    """Numbers and words about features, for or against Dr.

    Args:
        source: A PyG ``Data`` or a feature matrix; a loader of such; or a model with Dr blocks,
            which then needs ``data``, is called with its ``x`` and ``edge_index`` (or with what
            its ``prepare`` makes of it), and adds K of its blocks.
        data: The data of a model.

    Raises:
        UndefinedStability: If there is nothing to reweight, see
            :func:`drgcn.stability_k`.

    Example:
        >>> x = torch.randn(200, 5, generator=torch.Generator().manual_seed(0))
        >>> advice = advise(Data(x=x * torch.tensor([1.0, 1.0, 1.0, 1.0, 40.0])))
        >>> advice.k_range_4 < advice.k_range_2 < 1
        True
    """
    blocks = []
    if isinstance(source, torch.nn.Module):
        if data is None:
            raise InputError("Expected data beside a model: advise(model, data).")
        blocks = StabilityTracker(source).record(*_inputs(source, data))
        source = data
    if isinstance(source, Tensor):
        source = Data(x=source)
    if isinstance(source, HeteroData):
        types = ", ".join(map(repr, source.node_types)) or "none"
        raise InputError(
            f"Expected features of one kind of node; found HeteroData of the node types {types}. "
            f"Give one: advise(data[node_type].x)."
        )
    single = isinstance(source, Data)
    if not single and not isinstance(source, Iterable):
        raise InputError(
            f"Expected data, a loader of data or a model; found {type(source).__name__}."
        )
    found, variance = feature_numbers(source)
    numbers: dict[str, Any] = asdict(found) | {
        "layer_k": tuple(block.k for block in blocks),
        "layer_saturation": tuple(block.saturation for block in blocks),
    }
    normalize = getattr(source.get("dataset"), "normalize", None) if single else None
    signed = single and bool((_values(source.x) < 0).any())
    return Advice(
        **numbers,
        verdict=verdict(numbers),
        lines=(_spread(numbers), _classes(numbers), _records(normalize)),
        paragraph=paragraph(numbers, normalize),
        warnings=warnings_for(numbers, normalize, signed),
        variance=tuple(variance.tolist()),
    )


def _inputs(model: torch.nn.Module, data: Data) -> tuple[Any, ...]:
    prepare = getattr(model, "prepare", None)
    return prepare(data) if callable(prepare) else (data.x, data.edge_index)


def _values(x: Tensor) -> Tensor:
    return x if x.layout == torch.strided else x.to_sparse_coo().coalesce().values()


def verdict(numbers: Mapping[str, Any]) -> str:
    """Say whether variances differ enough for a gate to reduce K, and how far it could."""
    reach = f"gates within a factor of 4 could bring K from 1 down to {numbers['k_range_4']:.2g}"
    if numbers["k_std"] > _EVEN:
        return f"Variances are even, so a gate has little to even out: {reach} at best."
    if numbers["loudest"] > LOUD:
        return (
            f"A few columns drown the others, more than a gate can mend: {reach}, equal variances "
            f"to {numbers['k_std']:.2g}. Standardise first."
        )
    return f"Variances differ enough for a gate to even out: {reach}. Whether that helps is open."


def _spread(numbers: Mapping[str, Any]) -> str:
    return (
        f"The variances of the {numbers['features'] - numbers['constant']:,} features that vary "
        f"spread by {numbers['spread']:.2f} times their mean (0 if all were equal); the largest "
        f"is {numbers['loudest']:,.3g} times the median of the others."
    )


def _classes(numbers: Mapping[str, Any]) -> str:
    k = numbers["k_disc"]
    if k is None:
        return "Without labels nothing is known of which features tell the classes."
    if k > 1 / _EVEN:
        meaning = (
            "the telling features are the louder ones already, and evening out the spread would "
            "work against them."
        )
    elif k < _EVEN:
        meaning = "the telling features are the quieter ones, which leaves Dr something to do."
    else:
        meaning = "loud and quiet features say about as much."
    return (
        f"Weighting features by what they say of the training classes has K = {k:.2g}: {meaning}"
    )


def _records(normalize: str | None) -> str:
    evidence = packaged()
    return " ".join([counted(evidence.comparisons, normalize not in _RAW), evidence.study.short])


def paragraph(numbers: Mapping[str, Any], normalize: str | None = None) -> str:
    """Plain words about the numbers of an advice, with the evidence on record."""
    sentences = [
        _expectation(numbers, normalize),
        "Only a comparison over seeds decides: drgcn train DATASET --compare.",
        f"The variances of the {numbers['features'] - numbers['constant']:,} features that vary "
        f"spread by {numbers['spread']:.2f} times their mean (0 if all were equal).",
        f"Giving each the same variance has K = {numbers['k_std']:.2g}; gates that differ by a "
        f"factor of 2 can bring K down to {numbers['k_range_2']:.2g}, of 4 to "
        f"{numbers['k_range_4']:.2g}.",
        "That is how far reweighting can even out the spread, not whether it helps.",
    ]
    if numbers["k_disc"] is not None:
        sentences.append(_classes(numbers))
    if numbers["layer_k"]:
        k = ", ".join("undefined" if v is None else f"{v:.2f}" for v in numbers["layer_k"])
        stuck = ", ".join(f"{100 * v:.0f} %" for v in numbers["layer_saturation"])
        sentences.append(f"The blocks of the model have K {k}, and {stuck} of their gates stuck.")
    evidence = packaged()
    sentences += [summary(evidence.comparisons), evidence.study.words]
    if numbers["saturation_risk"] > _STUCK or (normalize in _RAW and numbers["loudest"] > LOUD):
        sentences.append(raw_against_standard(evidence.comparisons))
    return " ".join(filter(None, sentences))


def _expectation(numbers: Mapping[str, Any], normalize: str | None) -> str:
    if normalize == "standard" or numbers["k_std"] > _EVEN:
        return "These features are on one scale already, where recorded runs show little gain."
    if numbers["k_disc"] is not None and numbers["k_disc"] < _EVEN:
        return (
            "Here features of little variance say more of the classes than loud ones: Dr may "
            "help, and so may standardising, which costs nothing. Compare both."
        )
    if numbers["loudest"] > LOUD:
        return "A few columns drown the others: standardise first, and see what is left for Dr."
    return "The records give no reason to expect much of Dr here, nor do they rule it out."


def warnings_for(
    numbers: Mapping[str, Any], normalize: str | None, signed: bool
) -> tuple[str, ...]:
    """Warnings about odd features, one sentence each."""
    found = []
    if constant := numbers["constant"]:
        found.append(
            f"{constant:,} of {numbers['features']:,} features are constant; they are left out of "
            f"all numbers here."
        )
    if numbers["rows"] < numbers["features"]:
        found.append(
            f"there are fewer rows ({numbers['rows']:,}) than features "
            f"({numbers['features']:,}): covariances are of low rank, and every least K looks "
            f"better than it is."
        )
    if words := warning_of_scales(numbers["loudest"]):
        found.append(words)
    if signed and normalize == "row":
        found.append(
            "features with negative values were divided by their row sums, which may be near "
            "zero; use normalize='standard' or 'none'."
        )
    if numbers["saturation_risk"] > _STUCK:
        found.append(
            f"{100 * numbers['saturation_risk']:.0f} % of a Dr gate would be stuck at 0 or 1 "
            f"before training: the mean of the features is too large for it. {STANDARDISE}, or "
            f"take log(1 + x) of counts first."
        )
    return tuple(found)
