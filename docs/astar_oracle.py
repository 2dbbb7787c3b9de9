"""What can be found of the last day by those who know how it was drawn."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from drgcn.recommend.clicks import ClickData
from drgcn.recommend.synthetic import AstarParameters
from drgcn.recommend.synthetic.clicks import Tastes, TopicMap

_USERS = 2000
_TOP = 50
Top = Callable[[int], Tensor]


def popular(data: ClickData) -> Top:
    """The most clicked items before the last day, for everyone."""
    degree = data.graph.until(data.graph.day_range[1]).by_item.degree
    top = degree.argsort(descending=True, stable=True)[:_TOP]
    return lambda user: top


def known_tastes(
    data: ClickData,
    topics: TopicMap,
    tastes: Tastes,
    parameters: AstarParameters,
    *,
    factors: bool,
    drift: bool,
) -> Top:
    """The likeliest items for who knows a user's topics, and maybe drift and latent factors."""
    power = (parameters.item_tail - 2) / (parameters.item_tail - 1)
    place = torch.arange(topics.item_at.numel())
    topic = topics.topic_at(place)
    rank, size = (place - topics.starts[topic]).double(), topics.sizes[topic].double()
    popularity = ((rank + 1) / size) ** power - (rank / size) ** power
    share = parameters.rising_share * parameters.days * parameters.rising_days[-1]
    new = share / 64 / sum(parameters.rising_days) if drift else 0.0
    old = (1 - new) / (64 - parameters.rising_share)
    weights = [*(old * each for each in parameters.favourite_shares), new]
    bits = parameters.latent_bits
    ones = torch.tensor([number.bit_count() for number in range(2**bits)])
    liking = _liking(data, topics, tastes, ones, bits)

    def top(user: int) -> Tensor:
        score = torch.zeros(place.numel(), dtype=torch.float64)
        for number, weight in zip(tastes.topics[user].tolist(), weights, strict=True):
            here = slice(int(topics.starts[number]), int(topics.starts[number + 1]))
            score[here] = weight * popularity[here]
            if factors:
                differ = ones[topics.latents[here].long() ^ tastes.latents[user]]
                score[here] *= liking[differ]
        return topics.item_at[score.topk(_TOP).indices].long()

    return top


def recall(data: ClickData, top: Top) -> tuple[float, float]:
    """Mean and standard error of Recall@50 on the last day over some of its users."""
    by_user = data.graph.on(data.graph.day_range[1]).by_user
    users = (by_user.degree > 0).nonzero().squeeze(1)
    chosen = torch.randperm(len(users), generator=torch.Generator().manual_seed(0))[:_USERS]
    found = []
    for user in users[chosen].tolist():
        items = by_user.col[by_user.rowptr[user] : by_user.rowptr[user + 1]].long()
        found.append(float(torch.isin(items, top(user)).double().mean()))
    values = torch.tensor(found, dtype=torch.float64)
    return float(values.mean()), float(values.std()) / math.sqrt(len(found))


def _liking(data: ClickData, topics: TopicMap, tastes: Tastes, ones: Tensor, bits: int) -> Tensor:
    """How much likelier a click is than chance, by the number of factors that differ."""
    graph = data.graph
    user = torch.arange(graph.num_users).repeat_interleave(graph.by_user.degree)
    place = topics.place_of[graph.by_user.col.long()].long()
    own = (topics.topic_at(place)[:, None] == tastes.topics[user]).any(1)
    differ = ones[topics.latents[place[own]].long() ^ tastes.latents[user[own]]]
    seen = torch.bincount(differ, minlength=bits + 1).double() / differ.numel()
    chance = torch.tensor([math.comb(bits, k) / 2**bits for k in range(bits + 1)])
    return seen / chance
