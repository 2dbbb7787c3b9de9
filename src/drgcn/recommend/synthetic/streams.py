"""What the generator draws, each from a stream of its own."""

from __future__ import annotations

from enum import IntEnum


class Stream(IntEnum):
    """Second part of every key. A new purpose gets a new number; old numbers never change."""

    USER_ORDER = 0
    ITEM_ORDER = 1
    FAVOURITES = 2
    RISING = 3
    USER_LATENTS = 4
    ITEM_LATENTS = 5
    DIVISION = 6
    CANDIDATES = 7
    DAYS = 8
    TOPIC_LEVELS = 9
    USER_NUMBERS = 10
    USER_CATEGORIES = 11
    ITEM_NUMBERS = 12
    ITEM_CATEGORIES = 13
