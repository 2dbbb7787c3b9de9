"""The stability measure K, what of it can be reached, and the moments it is made of.

This room knows only tensors: neither graphs nor models nor datasets.
"""

from __future__ import annotations

from drgcn.stability.attainable import Minimum, minimal_k
from drgcn.stability.bounded_range import minimal_k_in_range
from drgcn.stability.class_share import class_share, discriminative_k
from drgcn.stability.measure import stability_k, standardizing_k
from drgcn.stability.moments import FeatureMoments
from drgcn.stability.quadratic_form import QuadraticForm
from drgcn.stability.saturation import gate_saturation
from drgcn.stability.variances import feature_variance, variance_spread

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
