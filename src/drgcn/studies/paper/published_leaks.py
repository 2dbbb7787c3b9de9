"""What the paper prints about label leaks, class by class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

from drgcn.audit.leaks.words import ABBREVIATIONS
from drgcn.studies.paper.all_tables import paper_table_of

#: The sets that have leak tables.
LEAK_SETS: Final = ("cora", "citeseer")

# The data's own name of a class where it is not the head of the column.
_SHORT: Final = {written: short for short, written in ABBREVIATIONS.items()}


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


@cache
def published_leaks(name: str) -> Mapping[str, PublishedLeak]:
    """Both tables of a dataset, by the names that the data gives the classes.

    Args:
        name: One of :data:`LEAK_SETS`.
    """
    found = {}
    for column in paper_table_of(f"leaks-{name}-others").columns:
        label = _SHORT.get(column, column.replace(" ", "_"))
        total, appeared, rate = _column(f"leaks-{name}", column)
        elsewhere, rate_elsewhere = _column(f"leaks-{name}-others", column)
        found[label] = PublishedLeak(
            *(int(total), int(appeared), rate, int(elsewhere), rate_elsewhere)
        )
    return MappingProxyType(found)


def published_totals(name: str) -> tuple[int, int, float]:
    """The column "Total": papers, those that appeared, and the rate in percent."""
    papers, appeared, rate = _column(f"leaks-{name}", "Total")
    return int(papers), int(appeared), rate


def _column(table: str, column: str) -> list[float]:
    cells = [cell for cell in paper_table_of(table).printed if cell.column == column]
    return [cell.printed.mean for cell in cells if cell.printed is not None]


# Papers whose title and abstract the authors had, where they say so: in a back-up, and found by
# searching for author and year. It stands in the text of Appendix A, in no table.
PUBLISHED_TEXTS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({"citeseer": (3186, 81)})
