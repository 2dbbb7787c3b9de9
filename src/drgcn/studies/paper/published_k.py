"""The K that the paper prints, and for what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from drgcn.studies.paper.all_tables import paper_table_of


@dataclass(frozen=True)
class PublishedK:
    """A column of Table 5: Dr-ASGCN, a sampled model, fully supervised.

    Attributes:
        k: Learnt K of both layers.
        plain: Accuracy of ASGCN in percent.
        dr: Accuracy of Dr-ASGCN.
    """

    k: tuple[float, float]
    plain: float
    dr: float

    @property
    def gain(self) -> float:
        """What Dr added, in points."""
        return self.dr - self.plain


# NOTE[PAPER] Table 5 calls two sets CoraE and CiteseerE, as no other place does. Its accuracies of
# them are those of CoraR and CiteseerR in Table 2 to the last digit, so they are taken for these.
# Over what K was averaged is not stated.
@cache
def paper_k() -> Mapping[tuple[str, str], PublishedK]:
    """The columns of Table 5 by dataset and split."""
    numbers: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for cell in paper_table_of("k").printed:
        if cell.dataset and cell.split and cell.printed:
            what = str(cell.label) if cell.quantity == "test" else cell.quantity
            numbers[cell.dataset, cell.split][what] = cell.printed.mean
    return MappingProxyType(
        {
            place: PublishedK((found["k1"], found["k2"]), found["asgcn"], found["asgcn + dr"])
            for place, found in numbers.items()
        }
    )


def published_k(dataset: str, split: str) -> tuple[float, ...]:
    """K per layer of Dr-ASGCN on a dataset; empty where the paper prints none.

    It prints none for any other model, so it can stand beside a row, never for it.
    """
    found = paper_k().get((dataset, split))
    return () if found is None else found.k
