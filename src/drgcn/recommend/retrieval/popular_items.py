"""The same popular items for everybody: what a model must beat."""

from __future__ import annotations

import torch
from torch import Tensor

from drgcn.recommend.retrieval.seen_items import is_seen
from drgcn.sampling import CSRGraph

_PLACES = 2**23  # looked at together


def popular_items(train: CSRGraph, users: Tensor, n: int, *, exclude_seen: bool) -> Tensor:
    """The ``n`` items with most training clicks, for each user: ``[users, n]``, then -1.

    Of items clicked as often the one with the smaller id comes first. Users are taken in order of
    their number of clicks: who has seen ``m`` items needs the ``n + m`` most popular looked at.
    """
    counts = torch.bincount(train.col, minlength=train.num_cols)
    ranking = counts.sort(descending=True, stable=True).indices
    if not exclude_seen:
        lists = ranking.new_full((n,), -1)
        lists[: train.num_cols] = ranking[:n]
        return lists.expand(users.numel(), -1)
    degree = (train.rowptr[users + 1] - train.rowptr[users]).long()
    degree, order = degree.sort()
    lists = ranking.new_full((users.numel(), n), -1)
    first = 0
    while first < users.numel():
        step = max(1, _PLACES // (n + int(degree[first])))
        width = n + int(degree[min(first + step, users.numel()) - 1])
        step = max(1, min(step, _PLACES // width))  # the last of them decides
        some = order[first : first + step]
        candidates = ranking[:width].expand(some.numel(), -1)
        seen = is_seen(train, users[some], candidates)
        place = seen.long().sort(dim=1, stable=True).indices[:, :n]  # unseen first, in order
        found = candidates.gather(1, place).masked_fill(seen.gather(1, place), -1)
        lists[some, : found.size(1)] = found
        first += step
    return lists
