"""A score and an item in one integer, whose order is the order of the ranking."""

from __future__ import annotations

import torch
from torch import Tensor

#: The key of no item: below every other.
NOTHING = -(2**63)
_ALL = 2**31 - 1


def ranking_key(scores: Tensor, items: Tensor) -> Tensor:
    """Integers that are larger for larger scores, and for smaller items where scores are equal.

    The bits of a float, read as an integer, rise with it; those of negative floats fall, so they
    are turned. Minus zero counts as zero.
    """
    bits = (scores + 0.0).view(torch.int32)
    rising = torch.where(bits < 0, bits ^ _ALL, bits).long()
    return (rising << 32) | (_ALL - items.long())


def from_ranking_key(key: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and items of keys; minus infinity and -1 for :data:`NOTHING`."""
    rising = (key >> 32).int()
    scores = torch.where(rising < 0, rising ^ _ALL, rising).view(torch.float32)
    items = _ALL - (key & 0xFFFFFFFF)
    nothing = key == NOTHING
    return scores.masked_fill(nothing, -torch.inf), items.masked_fill(nothing, -1)
