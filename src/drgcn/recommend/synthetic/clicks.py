"""Synthetic clicks: their parameters, topics, tastes, and which items users click on which day.

No draw is repeated and no pair comes out twice: a user's clicks are divided among topics, the
clicks in a topic among equal slices of its popularity, and each slice gives one item.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import isqrt
from typing import Final

import numpy as np
import torch
from torch import Tensor

from drgcn.errors import InputError
from drgcn.recommend.synthetic.random import (
    Stream,
    counters,
    hash64,
    portable_power,
    rank_table,
    share_out,
    stream_key,
)
from drgcn.streams import below, high_bits

_LEAST_ITEMS = 4
GROUPS = 5  # three favourite topics, the rising one, and all the rest
RISING, REST = 3, 4
_APART = 2**24  # more than twice the number of items: keeps groups apart in one running maximum
_LEAST_FRACTION: Final = 1e-4
_LEAST_SET: Final = 64
_SHARE_UNIT: Final = 64


@dataclass(frozen=True)
class AstarParameters:
    """Parameters of ``astar``. Sizes are those at fraction 1.

    Attributes:
        users: Users; each clicks at least once.
        items: Items; a few may have no click.
        clicks: Different pairs of user and item.
        user_tail: Exponent of the density of clicks per user, above 2.
        item_tail: Exponent of the density of clicks per item inside a topic, above 2.
        most_clicks: No user clicks more than this, nor more than a sixteenth of the items.
        topic_skew: Sizes of topics fall with their rank to this power.
        favourite_shares: Sixty-fourths of a user's clicks in the first, second and third
            favourite topic.
        rising_share: Sixty-fourths of all clicks in the user's rising topic, in the last days.
        rising_topics: One topic in so many is rising.
        candidates: Items that a click is chosen from.
        latent_bits: Latent factors of users and items, each -1 or 1; at most 16.
        latent_weight: What a factor on which user and item agree adds to an item's score, where
            the noise of a choice is uniform from 0 to 65,535.
        days: Length of the window.
        rising_days: How the clicks in rising topics spread over the last days, as weights.
        latent_signal: Shift of a number that carries a factor, up or down, in standard
            deviations of its noise; at most 1.
        topic_signal: The levels of topics in a number that carries them are uniform within so
            many standard deviations of its noise; at most 1.
    """

    users: int = 35_246_808
    items: int = 6_338_428
    clicks: int = 129_834_116
    user_tail: float = 2.5
    item_tail: float = 2.4
    most_clicks: int = 10_000
    topic_skew: float = 0.6
    favourite_shares: tuple[int, int, int] = (34, 16, 8)
    rising_share: int = 3
    rising_topics: int = 8
    candidates: int = 4
    latent_bits: int = 16
    latent_weight: int = 8_192
    days: int = 13
    rising_days: tuple[int, ...] = (1, 2, 3)
    latent_signal: float = 0.5
    topic_signal: float = 1.0

    def __post_init__(self) -> None:
        _check_parameters(self)

    def sized(self, fraction: float) -> AstarSizes:
        """The sizes at a fraction of full size."""
        if not _LEAST_FRACTION <= fraction <= 1:
            raise InputError(
                f"Expected a fraction from {_LEAST_FRACTION:.0e} to 1; found {fraction!r}."
            )
        items = round(self.items * fraction)
        if items < _LEAST_SET:
            raise InputError(
                f"Expected at least {_LEAST_SET} items; found {items}. Take a larger fraction."
            )
        return AstarSizes(
            users=round(self.users * fraction),
            items=items,
            clicks=round(self.clicks * fraction),
            topics=isqrt(items),
            most_clicks=min(self.most_clicks, items // 16),
        )

    @property
    def share_ends(self) -> tuple[int, int, int, int]:
        """Cumulative shares of a user's topics in the clicks, in sixty-fourths."""
        first, second, third = self.favourite_shares
        return first, first + second, first + second + third, self.in_topics

    @property
    def in_topics(self) -> int:
        """Sixty-fourths of the clicks that are not spread over all other topics."""
        return sum(self.favourite_shares) + self.rising_share


@dataclass(frozen=True)
class AstarSizes:
    """Sizes of a set at some fraction.

    Attributes:
        users: Users.
        items: Items.
        clicks: Clicks.
        topics: Topics: the square root of the number of items.
        most_clicks: No user clicks more than this.
    """

    users: int
    items: int
    clicks: int
    topics: int
    most_clicks: int


def _check_parameters(p: AstarParameters) -> None:
    kept = {
        "user_tail and item_tail above 2": min(p.user_tail, p.item_tail) > 2,
        "topic_skew from 0 to below 1": 0 <= p.topic_skew < 1,
        "favourite_shares and rising_share positive, 63 together at most": (
            min(*p.favourite_shares, p.rising_share) > 0 and p.in_topics < _SHARE_UNIT
        ),
        "latent_bits from 1 to 16": 1 <= p.latent_bits <= 16,
        "latent_weight from 0 to 2**24": 0 <= p.latent_weight <= 2**24,
        "at least one candidate": p.candidates >= 1,
        "latent_signal and topic_signal from 0 to 1": (
            0 <= min(p.latent_signal, p.topic_signal) <= max(p.latent_signal, p.topic_signal) <= 1
        ),
        "1 to 16 days, no fewer than rising_days": 1 <= len(p.rising_days) <= p.days <= 16,
        "no day with more rising clicks than clicks": (
            min(p.rising_days) >= 0
            and 0
            < max(p.rising_days) * p.rising_share * p.days
            <= sum(p.rising_days) * _SHARE_UNIT
        ),
        "fewer than 2**23 items": p.items < 2**23,
        "fewer than 2**31 users, and a click for each": p.users < 2**31 and p.users <= p.clicks,
    }
    for rule, holds in kept.items():
        if not holds:
            raise InputError(f"Expected {rule}; found {p}.")


@dataclass(frozen=True, eq=False)
class TopicMap:
    """Topics of users and items, and the items' latent factors.

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


def day_ends(parameters: AstarParameters) -> list[int]:
    """Cumulative shares of days in 32 random bits; then the same for clicks in rising topics.

    The second list begins at ``2**32``. Clicks in rising topics fall into the last days alone;
    the others are so much rarer there that all days weigh the same.
    """
    share = Fraction(parameters.rising_share, 64)
    rising = [Fraction(0)] * (parameters.days - len(parameters.rising_days))
    rising += [Fraction(weight, sum(parameters.rising_days)) for weight in parameters.rising_days]
    others = [(Fraction(1, parameters.days) - share * weight) / (1 - share) for weight in rising]
    return _ends(others, 0) + _ends(rising, 2**32)


def _ends(weights: list[Fraction], base: int) -> list[int]:
    return [base + int(total * 2**32) for total in accumulate(weights)]


@dataclass(frozen=True, eq=False)
class ClickDrawing:
    """Draws the clicks of users, whichever users are drawn together.

    Attributes:
        parameters: What shapes the clicks.
        seed: Seed of everything.
        topics: Topics and places of the items.
        knots: Table of :func:`rank_table`.
        agreement: What user and item add to a score, by the bits in which they differ.
        day_ends: Table of :func:`day_ends`.
        share_ends: Where each topic's share of a user's clicks ends, in 65,536ths.
    """

    parameters: AstarParameters
    seed: int
    topics: TopicMap
    knots: Tensor
    agreement: Tensor
    day_ends: Tensor
    share_ends: Tensor

    @classmethod
    def prepare(cls, parameters: AstarParameters, seed: int, topics: TopicMap) -> ClickDrawing:
        """Make the tables, on the device of the topics."""
        device = topics.starts.device
        differ = np.bitwise_count(np.arange(2**parameters.latent_bits, dtype=np.int64))
        agree = (parameters.latent_bits - differ.astype(np.int64)) * parameters.latent_weight
        return cls(
            parameters,
            seed,
            topics,
            torch.from_numpy(rank_table(parameters.item_tail)).to(device),
            torch.from_numpy(agree).to(device),
            torch.tensor(day_ends(parameters), device=device),
            torch.tensor(parameters.share_ends, device=device) * 1024,
        )

    def draw(self, begin: int, end: int, offsets: Tensor, clicks: int) -> tuple[Tensor, Tensor]:
        """The clicks of the users from ``begin`` to ``end - 1``.

        Args:
            begin: The first user.
            end: Behind the last user.
            offsets: Where the clicks of each user begin and end among all ``[users + 1]``.
            clicks: Clicks of these users together, known without asking the device.

        Returns:
            tuple: Items ``[clicks]``, int32, by user and ascending, and days ``[clicks]``, int16.
        """
        tastes = draw_tastes(begin, end, self.parameters, self.seed, self.topics)
        sizes = self._group_sizes(tastes)
        counts = self._divide(begin, end, offsets.diff(), sizes)
        number = torch.arange(counts.numel(), device=counts.device)
        group = number.repeat_interleave(counts.flatten(), output_size=clicks)
        first = counts.flatten().cumsum(0) - counts.flatten()
        slot = counters(0, clicks, counts.device)
        place_in_group = slot - first[group]
        click = slot + offsets[0]
        kind = number.remainder(GROUPS)[group]
        place = self._places(tastes, sizes, counts, group, place_in_group, click, kind)
        bits = hash64(stream_key(self.seed, Stream.DAYS), click)
        rising = (kind == RISING).long()
        day = torch.bucketize(high_bits(bits, 32) + (rising << 32), self.day_ends, right=True)
        day = day - rising * self.parameters.days
        items = self.topics.item_at.numel()
        user = number.div(GROUPS, rounding_mode="floor")[group]
        # All keys are different, so that any sort gives the same order.
        key = ((user * items + self.topics.item_at[place]) * 16 + day).sort().values
        return (key >> 4).remainder(items).int(), (key & 15).short()

    def _group_sizes(self, tastes: Tastes) -> Tensor:
        """Items that each group can choose from ``[users, 5]``."""
        sizes = self.topics.sizes[tastes.topics]
        rest = self.topics.item_at.numel() - sizes.sum(1, keepdim=True)
        return torch.cat([sizes, rest], 1)

    def _divide(self, begin: int, end: int, degree: Tensor, sizes: Tensor) -> Tensor:
        """Number of clicks of each group ``[users, 5]``.

        The clicks of a user stand at equal distances on a ring whose arcs are the shares, turned
        by chance. A topic gives at most half of its items; what is left over goes to the rest.
        """
        users = counters(begin, end, degree.device)
        turn = high_bits(hash64(stream_key(self.seed, Stream.DIVISION), users), 16)
        before = ((degree[:, None] * self.share_ends - turn[:, None]) + 65_535) >> 16
        counts = before.diff(dim=1, prepend=torch.zeros_like(before[:, :1]))
        counts = torch.minimum(counts, sizes[:, :REST] >> 1)
        return torch.cat([counts, (degree - counts.sum(1))[:, None]], 1)

    def _places(
        self,
        tastes: Tastes,
        sizes: Tensor,
        counts: Tensor,
        group: Tensor,
        place_in_group: Tensor,
        click: Tensor,
        kind: Tensor,
    ) -> Tensor:
        """The place of each click's item, all different for one user."""
        starts = torch.nn.functional.pad(self.topics.starts[tastes.topics], (0, 1))
        start = starts.flatten()[group]
        size = sizes.flatten()[group]
        count = counts.flatten()[group]
        latents = tastes.latents.repeat_interleave(GROUPS, output_size=counts.numel())[group]
        rank = self._chosen(click, place_in_group, count, size, start, latents, kind == REST)
        # Slices ascend, but neighbouring ones may end in the same item: each click moves behind
        # the one before it. None falls off the end: m clicks before the last, ranks leave room
        # for at least m * size / count more, and no group is asked for more than half its items.
        ahead = group * _APART
        rank = (rank - place_in_group + ahead).cummax(0).values - ahead + place_in_group
        return self._without_favourites(start + rank, tastes, group, kind)

    def _chosen(
        self,
        click: Tensor,
        place_in_group: Tensor,
        count: Tensor,
        size: Tensor,
        start: Tensor,
        latents: Tensor,
        rest: Tensor,
    ) -> Tensor:
        """Ranks inside the groups: the best of a few items in each click's slice."""
        key = stream_key(self.seed, Stream.CANDIDATES)
        best_rank = best_score = first_rank = click
        for number in range(self.parameters.candidates):
            bits = hash64(key, click * self.parameters.candidates + number)
            point = ((place_in_group << 32) + high_bits(bits, 32)).div(
                count, rounding_mode="floor"
            )
            cell, within = point >> 20, point & (2**20 - 1)
            knot = self.knots[cell]
            popular = knot + (((self.knots[cell + 1] - knot) * within) >> 20)
            rank = (torch.where(rest, point >> 1, popular) * size) >> 31
            score = self.agreement[self.topics.latents[start + rank] ^ latents] + (bits & 0xFFFF)
            if number == 0:
                best_rank, best_score, first_rank = rank, score, rank
            else:
                better = score > best_score
                best_rank = torch.where(better, rank, best_rank)
                best_score = torch.where(better, score, best_score)
        # The rest is not counted from a place of its own yet, and is chosen without taste.
        return torch.where(rest, first_rank, best_rank)

    def _without_favourites(
        self, place: Tensor, tastes: Tastes, group: Tensor, kind: Tensor
    ) -> Tensor:
        """Counts the rest past the places of the user's own topics."""
        index = (kind == REST).nonzero().squeeze(1)  # the one question to the device
        user = group[index].div(GROUPS, rounding_mode="floor")
        own = tastes.topics.sort(dim=1).values[user]
        moved = place[index]
        for topic in own.unbind(1):
            behind = moved >= self.topics.starts[topic]
            moved = moved + self.topics.sizes[topic] * behind
        return place.index_copy(0, index, moved)
