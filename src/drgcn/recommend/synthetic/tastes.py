"""What users like: favourite topics, a rising topic, and latent factors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from drgcn.recommend.synthetic.astar_parameters import AstarParameters
from drgcn.recommend.synthetic.counter_hash import below, counters, hash64, high_bits, stream_key
from drgcn.recommend.synthetic.streams import Stream
from drgcn.recommend.synthetic.topic_map import TopicMap


@dataclass(frozen=True, eq=False)
class Tastes:
    """The likes of some users.

    Attributes:
        topics: First, second and third favourite and rising topic, all different ``[users, 4]``.
        latents: Latent factors as bits ``[users]``.
    """

    topics: Tensor
    latents: Tensor


def draw_tastes(
    begin: int, end: int, parameters: AstarParameters, seed: int, map_: TopicMap
) -> Tastes:
    """The tastes of the users from ``begin`` to ``end - 1``.

    Favourites are drawn in proportion to the sizes of topics, the fourth among the rising ones. A
    topic that a user has already becomes the one after it.
    """
    users = counters(begin, end, map_.starts.device)
    count, items = map_.sizes.numel(), map_.item_at.numel()
    columns: list[Tensor] = []
    for number in range(3):
        bits = hash64(stream_key(seed, Stream.FAVOURITES, number), users)
        columns.append(_other_than(columns, map_.topic_at(below(bits, items)), count))
    bits = hash64(stream_key(seed, Stream.FAVOURITES, 3), users)
    columns.append(_other_than(columns, map_.rising[below(bits, map_.rising.numel())], count))
    bits = hash64(stream_key(seed, Stream.USER_LATENTS), users)
    return Tastes(torch.stack(columns, 1), high_bits(bits, parameters.latent_bits))


def _other_than(taken: list[Tensor], topic: Tensor, count: int) -> Tensor:
    for _ in taken:  # each step may run into another one: as many steps as topics taken
        for other in taken:
            topic = torch.where(topic == other, (topic + 1) % count, topic)
    return topic
