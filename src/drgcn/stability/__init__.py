"""The stability measure K, its least attainable value, and moments of features.

This package takes tensors and arrays alone: no graphs, models or datasets.
"""

from __future__ import annotations

from drgcn.stability.attainable import Minimum, QuadraticForm, minimal_k, minimal_k_in_range
from drgcn.stability.measure import (
    class_share,
    discriminative_k,
    feature_variance,
    gate_saturation,
    graph_stability,
    stability_k,
    standardizing_k,
    variance_spread,
)
from drgcn.stability.moments import FeatureMoments

__all__ = [
    "FeatureMoments",
    "Minimum",
    "QuadraticForm",
    "class_share",
    "discriminative_k",
    "feature_variance",
    "gate_saturation",
    "graph_stability",
    "minimal_k",
    "minimal_k_in_range",
    "stability_k",
    "standardizing_k",
    "variance_spread",
]
