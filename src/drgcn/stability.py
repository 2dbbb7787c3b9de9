"""The stability measure K: how reweighting changes the spread across feature dimensions."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.errors import UndefinedStability

_ROUNDING = 1e-12


def stability_k(x: Tensor, s: Tensor) -> float:
    r"""The measure :math:`K` of the paper for a layer with input ``x`` and vector ``s``.

    With :math:`\mathbf{C}` the covariance of the feature dimensions over nodes,

    .. math::
        K = \frac{\sum_i c_{ii} s_i^2 - \frac{1}{d} \sum_{ij} c_{ij} s_i s_j}
        {(\sum_i c_{ii} - \frac{1}{d} \sum_{ij} c_{ij}) \cdot \frac{1}{d} \sum_i s_i^2},

    the mean over nodes of the variance across dimensions after reweighting, relative to
    before and to the scale of ``s``. A constant ``s`` has :math:`K = 1`; damping the
    dimensions of large variance gives :math:`K < 1`. The covariance matrix is never formed:
    the double sums are variances of :math:`\mathbf{X}\mathbf{s}` and :math:`\mathbf{X}\mathbf{1}`.

    Args:
        x (Tensor): Node features ``[n, d]``, dense or sparse.
        s (Tensor): Reweighting vector ``[d]``.
    """
    if s.dim() != 1 or s.numel() != x.size(1):
        raise ValueError(f"stability_k expects s of shape [{x.size(1)}]; found {list(s.shape)}.")
    s = s.detach().double()
    variance = feature_variance(x)
    ones = torch.ones_like(s)
    before = variance.sum() - _projected_variance(x, ones) / s.numel()
    after = (variance * s.square()).sum() - _projected_variance(x, s) / s.numel()
    scale = before * s.square().mean()
    if not float(scale) > 0 or float(before) <= _ROUNDING * float(variance.sum()):
        raise UndefinedStability(
            "K is undefined: all feature dimensions are equal up to constants, or s is zero."
        )
    return float(after / scale)


def variance_spread(x: Tensor) -> float:
    """Coefficient of variation of the per-dimension variances: 0 when all are equal.

    The imbalance that reweighting can act on; it says nothing about whether acting helps.
    """
    variance = feature_variance(x)
    mean = variance.mean()
    if not float(mean) > 0:
        raise UndefinedStability(
            "The spread of variances is undefined: every feature is constant."
        )
    return float(variance.std(correction=0) / mean)


def feature_variance(x: Tensor) -> Tensor:
    """Variance of each feature dimension over nodes, in float64; exactly 0 for constants."""
    n = max(x.size(0), 1)
    if x.layout == torch.strided:
        x = x.detach().double()
        mean = x.sum(0) / n
        variance = (x - mean).square().sum(0) / n
    else:
        col, value = _columns(x)
        zeros = torch.zeros(x.size(1), dtype=torch.float64, device=x.device)
        mean = zeros.index_add(0, col, value) / n
        stored = zeros.index_add(0, col, (value - mean[col]).square()) / n
        share = zeros.index_add(0, col, torch.ones_like(value)) / n
        variance = stored + (1 - share) * mean.square()  # entries not stored are zero
    # The mean of n equal numbers is right to n roundings: less than that is no variance.
    floor = (n * torch.finfo(torch.float64).eps * mean).square()
    return torch.where(variance > floor, variance, 0.0)


def _projected_variance(x: Tensor, direction: Tensor) -> Tensor:
    if x.layout == torch.strided:
        x = x.detach().double()
        # Centred first: at large feature offsets the projection would lose its digits.
        projected = (x - x.mean(0)) @ direction
    else:
        projected = torch.mv(x.detach().to_sparse_coo().double(), direction)
    return (projected - projected.mean()).square().mean()


def _columns(x: Tensor) -> tuple[Tensor, Tensor]:
    coo = x.detach().to_sparse_coo().coalesce()
    return coo.indices()[1], coo.values().double()
