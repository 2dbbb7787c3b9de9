"""Variances of feature dimensions, and how far they spread."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from drgcn.errors import UndefinedStability
from drgcn.stability.moments import FeatureMoments
from drgcn.stability.rows import checked_features


def feature_variance(x: Any) -> Tensor:
    """Variance of each feature dimension over nodes, in float64; exactly 0 for constants.

    Args:
        x (Tensor, numpy.ndarray or FeatureMoments): Node features ``[n, d]``, dense or sparse,
            or their moments.
    """
    if isinstance(x, FeatureMoments):
        return x.variance()
    x = checked_features(x)
    device = x.device if isinstance(x, Tensor) else None
    if x.shape[0] == 0:
        return torch.zeros(x.shape[1], dtype=torch.float64, device=device)
    return FeatureMoments(x.shape[1], diagonal=True, device=device).update(x).variance()


def variance_spread(x: Any) -> float:
    """Coefficient of variation of the per-dimension variances: 0 when all are equal.

    The imbalance that reweighting can act on; it says nothing about whether acting helps.

    Args:
        x (Tensor, numpy.ndarray or FeatureMoments): Node features ``[n, d]``, dense or sparse,
            or their moments.
    """
    variance = feature_variance(x)
    mean = variance.mean()
    if not float(mean) > 0:
        raise UndefinedStability(
            "The spread of variances is undefined: every feature is constant."
        )
    return float(variance.std(correction=0) / mean)
