"""Random bits from counting, power laws as whole numbers, and work cut into independent chunks.

Nothing has a state. A number depends on its key and its counter alone, so it does not matter
which device draws it, in which order, or in how large a piece.

Powers of libraries differ in their last bits from machine to machine. Square roots and products
do not: IEEE 754 rounds them one way. So powers are built of these two.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from drgcn._processes import side_by_side
from drgcn.errors import InputError
from drgcn.streams import GOLDEN, MIX, scatter_bits, signed

_BITS: Final = 64
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_ROOTS: Final = 12  # exponents are rounded to 2**-12
CELLS: Final = 2**12
FIXED: Final = 2**31
# Large enough to keep a GPU busy; small enough for the caches of a CPU.
_SIZES = {"cuda": 2**20, "cpu": 2**14}


def hash64(key: int, counter: Tensor) -> Tensor:
    """Output number ``counter`` of SplitMix64 started with ``key``, as signed 64-bit integers.

    Args:
        key: Any whole number below ``2**64``, see :func:`stream_key`.
        counter: Which outputs, int64, counted from 0.
    """
    return scatter_bits(counter * signed(GOLDEN) + signed(key + GOLDEN))


def stream_key(seed: int, *path: int) -> int:
    """A 64-bit key for one purpose of one seed; different paths give unrelated keys."""
    key = _scattered(seed % 2**_BITS)
    for step in path:
        key = _scattered((key + (step + 1) * GOLDEN) % 2**_BITS)
    return key


def counters(begin: int, end: int, device: torch.device) -> Tensor:
    """``begin`` to ``end - 1`` as 64-bit integers."""
    return torch.arange(begin, end, dtype=torch.int64, device=device)


def _scattered(z: int) -> int:
    z = ((z ^ (z >> 30)) * MIX[0]) % 2**_BITS
    z = ((z ^ (z >> 27)) * MIX[1]) % 2**_BITS
    return z ^ (z >> 31)


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


def portable_power(x: Floats, exponent: float) -> Floats:
    """``x ** exponent`` for positive ``x``, by square roots and products alone.

    The exponent is rounded to a multiple of ``2**-12``.
    """
    steps = round(abs(exponent) * 2**_ROOTS)
    whole, part = divmod(steps, 2**_ROOTS)
    power, factor = np.ones_like(x), x.copy()
    while whole:
        if whole & 1:
            power = power * factor
        factor = factor * factor
        whole >>= 1
    root = x.copy()
    for bit in reversed(range(_ROOTS)):
        root = np.sqrt(root)
        if part >> bit & 1:
            power = power * root
    return power if exponent >= 0 else 1.0 / power


def clicks_of_users(users: int, clicks: int, tail: float, most: int) -> Integers:
    """Numbers of users who click at least 1, 2, 3, ... times; the numbers add up to ``clicks``.

    A shifted Pareto law: the share of users with at least ``d`` clicks is ``(1 + (d - 1) / s)``
    to the power ``1 - tail``, with ``s`` such that the mean comes out, cut off above ``most``.

    Args:
        users: Number of users.
        clicks: Number of clicks of all.
        tail: Exponent of the density.
        most: Most clicks of one user.
    """
    if not users <= clicks <= users * most:
        raise InputError(
            f"Expected {users} to {users * most} clicks of {users} users with at most {most} "
            f"each; found {clicks}."
        )
    extra = np.arange(1, most, dtype=np.float64)  # clicks beyond the first
    low, high = 2.0**-20, 2.0**40
    for _ in range(80):
        middle = float(np.sqrt(low * high))
        share = portable_power(1.0 + extra / middle, 1.0 - tail)
        # numpy's order of adding depends on the machine; one after the other does not.
        if users * float(np.cumsum(share)[-1]) < clicks - users:
            low = middle
        else:
            high = middle
    exact = users * portable_power(1.0 + extra / high, 1.0 - tail)
    return np.concatenate([[users], share_out(exact, clicks - users, np.int64(users))])


def share_out(exact: Floats, total: int, most: np.int64 | None = None) -> Integers:
    """Whole numbers near ``exact`` that add up to ``total``, by largest remainders.

    Numbers that descend descend afterwards.

    Args:
        exact: What to come near to.
        total: The sum.
        most: No number may be larger than this.
    """
    counts = np.floor(exact).astype(np.int64)
    order = np.argsort(counts - exact, kind="stable")
    missing = total - int(counts.sum())
    while missing:  # one round, but for sums that are off by more than rounding
        step = 1 if missing > 0 else -1
        open_ = order if step > 0 else order[::-1]
        free = counts[open_] < most if step > 0 and most is not None else counts[open_] + step >= 0
        chosen = open_[free][: abs(missing)]
        counts[chosen] += step
        missing -= step * len(chosen)
    return counts


def rank_table(tail: float) -> Integers:
    """Quantiles inside a topic: knots of ``u ** p`` in units of ``2**-31``.

    Items clicked in proportion to ``rank ** -a`` have clicks of density exponent ``1 + 1 / a``.
    Ranks of that kind are ``size * u ** p`` with ``p = 1 / (1 - a)``.

    Args:
        tail: Exponent of the density of clicks per item.
    """
    power = (tail - 1.0) / (tail - 2.0)
    knots = np.arange(1, CELLS + 1, dtype=np.float64) / CELLS
    return np.concatenate([[0], np.rint(FIXED * portable_power(knots, power)).astype(np.int64)])


def chunk_bounds(count: int, chunk: int) -> list[int]:
    """Boundaries of chunks, the end included."""
    return [*range(0, count, chunk), count]


def chunk_size(device: torch.device) -> int:
    """Default number of nodes in a chunk."""
    return _SIZES.get(device.type, 2**16)


def for_each_chunk(
    bounds: list[int], device: torch.device, work: Callable[[int, int], None]
) -> None:
    """Call ``work(begin, end)`` for every chunk.

    On a CPU as many chunks as torch has threads are under way.
    """
    pairs = list(pairwise(bounds))
    if device.type == "cpu" and len(pairs) > 1:
        side_by_side(lambda pair: work(*pair), pairs, torch.get_num_threads())
        return
    for begin, end in pairs:
        work(begin, end)
