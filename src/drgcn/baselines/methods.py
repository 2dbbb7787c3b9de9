"""The baselines by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from drgcn.baselines.baseline import Baseline
from drgcn.baselines.deepwalk import DeepWalk
from drgcn.baselines.iterative_classification import IterativeClassification
from drgcn.baselines.label_propagation import LabelPropagation
from drgcn.baselines.manifold_regularization import ManifoldRegularization
from drgcn.baselines.planetoid import Planetoid, PlanetoidI
from drgcn.baselines.semi_embedding import SemiEmbedding
from drgcn.errors import InputError

#: In the order of the paper's table.
METHODS: Final[Mapping[str, type[Baseline]]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            ManifoldRegularization,
            SemiEmbedding,
            LabelPropagation,
            DeepWalk,
            IterativeClassification,
            Planetoid,
            PlanetoidI,
        )
    }
)


def method(name: str) -> Baseline:
    """The baseline of a name, with its usual settings."""
    if name not in METHODS:
        raise InputError(
            f"Expected a method out of {', '.join(METHODS)}; found {name!r}. Use one of them."
        )
    return METHODS[name]()
