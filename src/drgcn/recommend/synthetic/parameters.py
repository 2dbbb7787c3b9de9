"""Every number that shapes the synthetic clicks, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Final

from drgcn.errors import InputError

_LEAST_FRACTION: Final = 1e-4
_LEAST_ITEMS: Final = 64
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
        _check(self)

    def sized(self, fraction: float) -> AstarSizes:
        """The sizes at a fraction of full size."""
        if not _LEAST_FRACTION <= fraction <= 1:
            raise InputError(
                f"Expected a fraction from {_LEAST_FRACTION:.0e} to 1; found {fraction!r}."
            )
        items = round(self.items * fraction)
        if items < _LEAST_ITEMS:
            raise InputError(
                f"Expected at least {_LEAST_ITEMS} items; found {items}. Take a larger fraction."
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


def _check(p: AstarParameters) -> None:
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
