"""How much of one list is in another."""

from __future__ import annotations

import torch
from torch import Tensor


def is_listed(wanted: Tensor, found: Tensor) -> Tensor:
    """Whether each item of one list is in the other list of the same query.

    Lists may be as long as there are items, so no table of all pairs of places is made.

    Args:
        wanted: Lists ``[q, n]``, -1 where a list ends.
        found: Lists ``[q, m]`` in any order, likewise.

    Returns:
        Truth values ``[q, n]``; false where ``wanted`` ends.
    """
    if not found.size(1):
        return torch.zeros_like(wanted, dtype=torch.bool)
    ordered = found.sort(dim=1).values
    place = torch.searchsorted(ordered, wanted.contiguous()).clamp(max=found.size(1) - 1)
    return (ordered.gather(1, place) == wanted) & (wanted >= 0)
