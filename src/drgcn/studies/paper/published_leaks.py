"""What the paper prints about label leaks, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class PublishedLeak:
    """One column of the paper's two leak tables of a dataset.

    Attributes:
        total: Papers of the class.
        appeared: Those whose title or abstract has the label.
        rate: The same in percent.
        elsewhere: Papers of other classes that have the label.
        rate_elsewhere: The same in percent, of what the paper divides by.
    """

    total: int
    appeared: int
    rate: float
    elsewhere: int
    rate_elsewhere: float


# Classes by the names that the data gives them. The tables stand in Appendix A: "Label terms
# appearing in ... title and abstract" and "Label appear(ed) in document of other categories".
PUBLISHED_LEAKS: Final[Mapping[str, Mapping[str, PublishedLeak]]] = MappingProxyType(
    {
        "cora": {
            "Case_Based": PublishedLeak(298, 151, 50.7, 205, 7.6),
            "Theory": PublishedLeak(351, 84, 23.9, 224, 8.3),
            "Probabilistic_Methods": PublishedLeak(426, 103, 24.2, 111, 4.1),
            "Rule_Learning": PublishedLeak(180, 38, 21.1, 229, 8.5),
            "Neural_Networks": PublishedLeak(818, 410, 50.1, 146, 5.4),
            "Reinforcement_Learning": PublishedLeak(217, 134, 61.8, 22, 0.8),
            "Genetic_Algorithms": PublishedLeak(418, 225, 53.8, 28, 1.0),
        },
        "citeseer": {
            "AI": PublishedLeak(264, 54, 20.5, 369, 13.6),
            "ML": PublishedLeak(590, 334, 56.6, 400, 14.8),
            "IR": PublishedLeak(668, 434, 65.0, 763, 28.2),
            "DB": PublishedLeak(701, 403, 57.5, 212, 7.8),
            "Agents": PublishedLeak(596, 521, 87.4, 236, 8.7),
            "HCI": PublishedLeak(508, 309, 60.8, 452, 16.7),
        },
    }
)

# The columns "Total": papers, those that appeared, and the rate in percent.
PUBLISHED_TOTALS: Final[Mapping[str, tuple[int, int, float]]] = MappingProxyType(
    {"cora": (2708, 1145, 42.3), "citeseer": (3327, 2055, 61.8)}
)

# Papers whose title and abstract the authors had, where they say so: in a back-up, and found by
# searching for author and year.
PUBLISHED_TEXTS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({"citeseer": (3186, 81)})
