"""A column of numbers: what it carries, and how it is spread."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

SPREAD: Final = 2**15  # standard deviation of the noise, see attributes.py
MISSING: Final = 2**16  # index of the missing value
_HALF: Final = 2**15
_STEP: Final = 4  # neighbouring indices differ by so much


@dataclass(frozen=True)
class NumberColumn:
    """One attribute of numbers.

    Attributes:
        name: Its name.
        carries: What shifts it: a latent factor, the topic, or nothing.
        factor: Which latent factor, if one.
        scale: What one standard deviation of the noise is worth, or the median if log-normal.
        offset: Mean, in multiples of the scale; not for log-normal columns.
        log_spread: Standard deviation of the logarithm; 0 for a bell.
        missing: Share of missing values, in 65,536ths.
    """

    name: str
    carries: Literal["latent", "topic", "nothing"]
    factor: int
    scale: float
    offset: int
    log_spread: float
    missing: int

    def values(self) -> npt.NDArray[np.float32]:
        """The value for each of 65,536 levels of noise and signal, and NaN behind them.

        Products alone make the exponentials, so that every machine has the same table.
        """
        if self.log_spread:
            step = Decimal(self.log_spread) * _STEP / SPREAD
            up = np.cumprod(np.full(_HALF, float(step.exp())))
            down = np.cumprod(np.full(_HALF, float((-step).exp())))
            levels = self.scale * np.concatenate([down[::-1], [1.0], up[:-1]])
        else:
            index = np.arange(-_HALF, _HALF, dtype=np.float64)
            levels = self.scale * (self.offset + index * (_STEP / SPREAD))
        return np.append(levels, np.nan).astype(np.float32)
