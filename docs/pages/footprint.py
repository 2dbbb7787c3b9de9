"""Bytes that clicks and tables take, counted before there are any."""

from __future__ import annotations

_POINTER = 8  # rowptr is int64
_DAY = 2  # int16
_SMALL_IDS = 2**31


def topology_bytes(users: int, items: int, clicks: int, *, days: bool = True) -> int:
    """Bytes of a :class:`~drgcn.recommend.clicks.graph.ClickGraph`: 10 a click with days.

    Args:
        users: Number of users.
        items: Number of items.
        clicks: Number of clicks.
        days: Whether each has a day.
    """
    number = 4 if max(users, items) < _SMALL_IDS else 8
    pointers = _POINTER * (users + 1 + items + 1)
    return pointers + clicks * (2 * number + (_DAY if days else 0))


def table_bytes(rows: int, channels: int) -> int:
    """Bytes of a table of embeddings that is trained on a rank.

    In single precision: the table, its gradient, and the two moments of Adam.

    Args:
        rows: Rows of the table.
        channels: Its width.
    """
    return 4 * rows * channels * 4
