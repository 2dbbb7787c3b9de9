"""The stability measure K, what of it can be reached, and the moments it is made of.

This room knows only tensors: neither graphs nor models nor datasets.
"""

from __future__ import annotations

from drgcn.stability.attainable import Minimum, QuadraticForm, minimal_k, minimal_k_in_range
from drgcn.stability.class_share import class_share, discriminative_k
from drgcn.stability.measure import (
    feature_variance,
    gate_saturation,
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
    "minimal_k",
    "minimal_k_in_range",
    "stability_k",
    "standardizing_k",
    "variance_spread",
]
