"""What can be said about Dr before, or after, training on some features: numbers and words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from drgcn.errors import InputError
from drgcn.studies.advice.words import paragraph, warnings_for
from drgcn.studies.gain.feature_numbers import FeatureNumbers, feature_numbers
from drgcn.training.tracker import StabilityTracker


@dataclass(frozen=True)
class Advice(FeatureNumbers):
    """Numbers about features, what they mean in plain words, and what to look at first.

    Attributes:
        layer_k: K of each Dr block of a model; empty without one.
        layer_saturation: The same for the share of gate entries at either end.
        paragraph: What the numbers say, and what they do not.
        warnings: What is odd about the features.
        variance: The variances, in the order of the dimensions.
    """

    layer_k: tuple[float | None, ...]
    layer_saturation: tuple[float, ...]
    paragraph: str
    warnings: tuple[str, ...]
    variance: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join([self.paragraph, *(f"warning: {words}" for words in self.warnings)])


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
        paragraph=paragraph(numbers, normalize),
        warnings=warnings_for(numbers, normalize, signed),
        variance=tuple(variance.tolist()),
    )


def _inputs(model: torch.nn.Module, data: Data) -> tuple[Any, ...]:
    prepare = getattr(model, "prepare", None)
    return prepare(data) if callable(prepare) else (data.x, data.edge_index)


def _values(x: Tensor) -> Tensor:
    return x if x.layout == torch.strided else x.to_sparse_coo().coalesce().values()
