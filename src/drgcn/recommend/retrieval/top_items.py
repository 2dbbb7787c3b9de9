"""What a search gives back."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class TopItems:
    """The best items of each query, best first; of equal scores the smaller id comes first.

    Attributes:
        scores: ``[queries, n]``, 32-bit floats: inner products, or minus the squared distance.
            Minus infinity where a query has fewer than ``n`` items.
        items: ``[queries, n]``, 64-bit integers, and -1 where a query has fewer.
        widened: Queries for which the first choice of blocks could not be proved enough.
        scanned: Queries for which all items had to be scored.
    """

    scores: Tensor
    items: Tensor
    widened: int = 0
    scanned: int = 0
