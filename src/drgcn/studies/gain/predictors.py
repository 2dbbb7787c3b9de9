"""What might say when Dr helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drgcn.studies.gain.cell import Cell


@dataclass(frozen=True)
class Predictor:
    """Something that might say when Dr helps.

    Attributes:
        name: As a field of results.
        words: In a table.
        expected: Sign of the correlation with the gain if smaller K meant more gain, as the paper
            has it; 0 where it says nothing.
        value: Its value in a cell.
    """

    name: str
    words: str
    expected: int
    value: Callable[[Cell], float | None]


PREDICTORS = (
    Predictor("k_1", "learnt K, layer 1", -1, lambda cell: cell.k_1),
    Predictor("k_range_2", "least K within a factor of 2", -1, lambda c: c.numbers.k_range_2),
    Predictor("k_disc", "K of weights by class share", -1, lambda c: c.numbers.k_disc),
    Predictor("k_std", "K of 1/std", -1, lambda c: c.numbers.k_std),
    Predictor("spread", "spread of variances", 1, lambda c: c.numbers.spread),
    Predictor("saturation_risk", "gate stuck at first", 0, lambda c: c.numbers.saturation_risk),
)
