"""A column of categories: what it tells, and how often that is true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CategoryColumn:
    """One attribute of categories.

    Attributes:
        name: Its name.
        carries: What it tells: the topic (a user's first favourite), the group of that topic, the
            second favourite, four latent factors ("style"), topic and two factors ("brand"), or
            nothing.
        size: Number of categories.
        fidelity: How often it tells the truth, in 65,536ths; else it is drawn uniformly. What
            tells nothing is drawn with more weight on the first categories.
        missing: Share of missing values, in 65,536ths.
    """

    name: str
    carries: Literal["topic", "group", "second", "style", "brand", "nothing"]
    size: int
    fidelity: int = 0
    missing: int = 0
