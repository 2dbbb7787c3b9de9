"""Days of clicks: every day has as many, but what is clicked in the last days is new."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

from drgcn.recommend.synthetic.astar_parameters import AstarParameters


def day_ends(parameters: AstarParameters) -> list[int]:
    """Where each day ends in 32 random bits; then the same for clicks in rising topics.

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
