"""What a random list would find: computed, not drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.recommend.retrieval.user_values import UserValues, discounts


def random_values(
    values: UserValues, n: int, candidates: Tensor, wanted: Tensor, findable: Tensor
) -> UserValues:
    """The expected values of lists of ``n`` different items, each as likely as any other.

    Args:
        values: Who the users are.
        n: Length of the lists.
        candidates: Items that may be in a user's list ``[m]``.
        wanted: A user's targets ``[m]``.
        findable: Those of them that may be in the list ``[m]``.
    """
    candidates, wanted, findable = candidates.double(), wanted.double(), findable.double()
    length = candidates.clamp(max=n)
    share = findable / candidates.clamp(min=1)
    rest = candidates - findable  # a list without a hit is drawn from these
    log_miss = _log_choose(rest, length) - _log_choose(candidates, length)
    miss = torch.where(rest >= length, log_miss.exp(), 0.0)
    worth = torch.cat([torch.zeros(1, dtype=torch.float64), discounts(n).cumsum(0)])
    ndcg = share * worth[length.long()] / worth[wanted.long().clamp(max=n)]
    return UserValues(values.users, values.warm, share * length / wanted, 1 - miss, ndcg)


def _log_choose(total: Tensor, chosen: Tensor) -> Tensor:
    total = torch.maximum(total, chosen)
    parts = (total - chosen + 1).lgamma() + (chosen + 1).lgamma()
    return (total + 1).lgamma() - parts
