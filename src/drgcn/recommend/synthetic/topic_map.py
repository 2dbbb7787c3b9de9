"""Topics: every item has a place, and neighbouring places are one topic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from drgcn.recommend.synthetic.astar_parameters import AstarParameters, AstarSizes
from drgcn.recommend.synthetic.counter_hash import counters, hash64, high_bits, stream_key
from drgcn.recommend.synthetic.power_law import portable_power, share_out
from drgcn.recommend.synthetic.streams import Stream

_LEAST_ITEMS = 4


@dataclass(frozen=True, eq=False)
class TopicMap:
    """Where topics begin, who stands where, and the items' latent factors.

    Inside a topic, the first place is the most popular. Items have random places, so their ids
    say nothing.

    Attributes:
        starts: First place of each topic, and the number of items ``[topics + 1]``.
        sizes: Items of each topic ``[topics]``.
        rising: The rising topics.
        item_at: The item at each place ``[items]``, int32.
        place_of: The place of each item ``[items]``, int32.
        latents: The factors of the item at each place, as bits ``[items]``, int32.
    """

    starts: Tensor
    sizes: Tensor
    rising: Tensor
    item_at: Tensor
    place_of: Tensor
    latents: Tensor

    @classmethod
    def draw(
        cls, parameters: AstarParameters, sizes: AstarSizes, seed: int, device: torch.device
    ) -> TopicMap:
        """The topics of one seed."""
        counts = _topic_sizes(sizes.items, sizes.topics, parameters.topic_skew)
        starts = np.concatenate([[0], np.cumsum(counts)])
        places = counters(0, sizes.items, device)
        # The keys are all different, so there is one order.
        item_at = hash64(stream_key(seed, Stream.ITEM_ORDER), places).argsort()
        place_of = torch.empty_like(item_at)
        place_of[item_at] = places
        bits = hash64(stream_key(seed, Stream.ITEM_LATENTS), places)
        return cls(
            starts=torch.from_numpy(starts).to(device),
            sizes=torch.from_numpy(counts).to(device),
            rising=_rising(parameters, sizes, seed).to(device),
            item_at=item_at.int(),
            place_of=place_of.int(),
            latents=high_bits(bits, parameters.latent_bits).int(),
        )

    def topic_at(self, places: Tensor) -> Tensor:
        """The topic of each place."""
        return torch.bucketize(places, self.starts[1:], right=True)


def _topic_sizes(items: int, topics: int, skew: float) -> np.ndarray:
    ranks = np.arange(1, topics + 1, dtype=np.float64)
    weights = portable_power(ranks, -skew)
    spare = items - _LEAST_ITEMS * topics
    return _LEAST_ITEMS + share_out(weights * (spare / np.cumsum(weights)[-1]), spare)


def _rising(parameters: AstarParameters, sizes: AstarSizes, seed: int) -> Tensor:
    """The topics with the smallest hashes: as many for every seed."""
    keys = hash64(stream_key(seed, Stream.RISING), torch.arange(sizes.topics))
    count = max(1, sizes.topics // parameters.rising_topics)
    return keys.argsort()[:count].sort().values
