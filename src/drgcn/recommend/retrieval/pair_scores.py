"""The score of a query and an item, as the results are ranked by it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def pair_scores(queries: Tensor, items: Tensor, metric: str) -> Tensor:
    """Inner products, or minus squared distances, in 32-bit floats and one fixed order.

    Halves are added to each other until one number is left. A matrix product adds in an order
    that depends on shapes, so that a pair's score would depend on who else was asked for.

    Args:
        queries: ``[..., d]``.
        items: ``[..., d]``, whose shape is broadcast against that of the queries.
        metric: ``"ip"`` or ``"l2"``.
    """
    terms = queries * items if metric == "ip" else -(queries - items).square()
    while (width := terms.size(-1)) > 1:
        half = (width + 1) // 2
        left, right = terms[..., :half], terms[..., half:]
        terms = left + F.pad(right, (0, 2 * half - width))
    return terms[..., 0]
