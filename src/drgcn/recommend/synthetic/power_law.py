"""Power laws as tables of whole numbers, the same on every machine.

Powers of libraries differ in their last bits from machine to machine. Square roots and products
do not: IEEE 754 rounds them one way. So powers are built of these two.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from drgcn.errors import InputError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_ROOTS: Final = 12  # exponents are rounded to 2**-12
CELLS: Final = 2**12
FIXED: Final = 2**31


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
    """How many users click at least 1, 2, 3, ... times; the numbers add up to ``clicks``.

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
    """Where in a topic a uniform number falls: knots of ``u ** p`` in units of ``2**-31``.

    Items clicked in proportion to ``rank ** -a`` have clicks of density exponent ``1 + 1 / a``.
    Ranks of that kind are ``size * u ** p`` with ``p = 1 / (1 - a)``.

    Args:
        tail: Exponent of the density of clicks per item.
    """
    power = (tail - 1.0) / (tail - 2.0)
    knots = np.arange(1, CELLS + 1, dtype=np.float64) / CELLS
    return np.concatenate([[0], np.rint(FIXED * portable_power(knots, power)).astype(np.int64)])
