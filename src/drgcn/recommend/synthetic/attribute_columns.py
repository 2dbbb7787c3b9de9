"""The 27 attributes of users and the 33 of items."""

from __future__ import annotations

from typing import Final, Literal

from drgcn.recommend.synthetic.category_column import CategoryColumn
from drgcn.recommend.synthetic.number_column import NumberColumn

USER_NUMBERS: Final = 19
ITEM_NUMBERS: Final = 24
TOPICS_PER_GROUP: Final = 16
_ONE: Final = 65_536
_SCALES: Final = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    50.0,
    100.0,
    200.0,
    500.0,
    1000.0,
)
_CARRIES: Final[tuple[Literal["latent", "topic", "nothing"], ...]] = (
    "latent",
    "topic",
    "nothing",
    "nothing",
)
_LOG_SPREADS: Final = (0.5, 1.0, 2.0)
_OFFSETS: Final = (0, 3, -1)
_MISSING: Final = (0, 0, 0, _ONE // 32, _ONE // 8)


def number_columns(count: int) -> tuple[NumberColumn, ...]:
    """Columns by rule: everything but the name follows from a column's number.

    Of four columns one carries a factor, one the topic, and two nothing. Every third is
    log-normal. Scales walk through 0.01, 0.02, 0.05, ..., 1000 in steps of five.
    """
    return tuple(
        NumberColumn(
            name=f"number_{j}",
            carries=_CARRIES[j % 4],
            factor=j // 4,
            scale=_SCALES[5 * j % len(_SCALES)],
            offset=_OFFSETS[j // 3 % 3],
            log_spread=_LOG_SPREADS[j // 3 % 3] if j % 3 == 2 else 0.0,
            missing=_MISSING[j % len(_MISSING)],
        )
        for j in range(count)
    )


def user_categories(topics: int) -> tuple[CategoryColumn, ...]:
    """The 8 columns of categories of users, for so many topics."""
    groups = -(-topics // TOPICS_PER_GROUP)
    return (
        CategoryColumn("interest", "topic", topics, _ONE * 5 // 8, _ONE // 32),
        CategoryColumn("interest_group", "group", groups, _ONE * 3 // 4),
        CategoryColumn("second_interest", "second", topics, _ONE // 2, _ONE // 4),
        CategoryColumn("style", "style", 16, _ONE * 3 // 4),
        CategoryColumn("noise_3", "nothing", 3),
        CategoryColumn("noise_12", "nothing", 12, 0, _ONE // 16),
        CategoryColumn("noise_64", "nothing", 64),
        CategoryColumn("noise_340", "nothing", 340, 0, _ONE // 8),
    )


def item_categories(topics: int) -> tuple[CategoryColumn, ...]:
    """The 9 columns of categories of items, for so many topics."""
    groups = -(-topics // TOPICS_PER_GROUP)
    return (
        CategoryColumn("topic", "topic", topics, _ONE * 5 // 8, _ONE // 32),
        CategoryColumn("topic_group", "group", groups, _ONE * 3 // 4),
        CategoryColumn("brand", "brand", 4 * topics, _ONE // 2, _ONE // 8),
        CategoryColumn("style", "style", 16, _ONE * 3 // 4),
        CategoryColumn("noise_2", "nothing", 2),
        CategoryColumn("noise_7", "nothing", 7),
        CategoryColumn("noise_30", "nothing", 30, 0, _ONE // 16),
        CategoryColumn("noise_365", "nothing", 365),
        CategoryColumn("noise_10000", "nothing", 10_000, 0, _ONE // 8),
    )
