"""Drawing by weight, and what each draw must be multiplied by to keep sums unbiased."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Draw:
    r"""Some of the places that had weight.

    For any numbers :math:`f`, :math:`\sum_j` ``factor[j]`` :math:`f_{\mathrm{index}[j]}` has the
    expectation :math:`\sum_u f_u` over all places of positive weight.

    Attributes:
        index: The places drawn ``[count]``.
        factor: What makes up for those not drawn ``[count]``; zero for a draw that was not
            needed because there were fewer places than draws.
        real: Which draws were needed ``[count]``; all of them if not given.
    """

    index: Tensor
    factor: Tensor
    real: Tensor | None = None


def draw_with_replacement(weight: Tensor, count: int) -> Draw:
    r"""Independent draws; the factor is :math:`1 / (n q_u)` (Hansen and Hurwitz).

    Args:
        weight: Weights ``[c]``, none negative, not all zero.
        count: Number of draws :math:`n`.
    """
    ends = weight.to(torch.float64).cumsum(0)
    point = torch.rand(count, dtype=torch.float64, device=weight.device) * ends[-1]
    index = torch.searchsorted(ends, point, right=True).clamp(max=weight.numel() - 1)
    return Draw(index, ends[-1] / (count * weight[index].to(torch.float64)))


def draw_without_replacement(weight: Tensor, count: int) -> Draw:
    r"""Distinct draws, one after the other, each in proportion to the weights that are left.

    That is the same as taking the ``count`` largest of :math:`\log w_u + G_u` with Gumbel noise
    :math:`G`. Given the largest one left behind, :math:`\kappa`, the draws are independent, and
    :math:`u` is among them with probability :math:`1 - \exp(-\exp(\log w_u - \kappa))`, whose
    reciprocal is the factor (Kool, van Hoof and Welling, 2019). Exact, unlike
    :math:`1 / (n q_u)`.

    Args:
        weight: Weights ``[c]``, none negative.
        count: At most so many draws.
    """
    places = weight.numel()
    uniform = torch.rand(places, dtype=torch.float64, device=weight.device)
    score = weight.to(torch.float64).log()
    noisy = score - torch.log(-torch.log(uniform.clamp(min=torch.finfo(torch.float64).tiny)))
    top = noisy.topk(min(count + 1, places))
    index = top.indices[:count]
    left = top.values[count] if places > count else noisy.new_full((), -torch.inf)
    chance = -torch.expm1(-torch.exp(score[index] - left))
    # Without anything left behind everybody was taken, for certain.
    chance = torch.where(left == -torch.inf, 1.0, chance)
    real = weight[index] > 0
    return Draw(index, torch.where(real, 1 / chance, 0.0), real)
