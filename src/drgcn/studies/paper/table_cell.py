"""One cell of a table of results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from drgcn.studies.paper.cell_recipe import CellRecipe
from drgcn.studies.paper.printed_number import PrintedNumber

Quantity = Literal["test", "gain", "k1", "k2", "seconds", "recall", "count", "rate"]
QUANTITIES: tuple[str, ...] = get_args(Quantity)


@dataclass(frozen=True)
class TableCell:
    """What the paper prints somewhere, and what can be run for it.

    A cell with a recipe and a reason at once is one that this package can run as soon as the
    user has the data: the reason says which. A cell without a recipe has nothing to run.

    Attributes:
        row: Head of its row.
        column: Head of its column.
        printed: The printed number; ``None`` where the paper prints none.
        job: What to train; ``None`` if nothing is.
        reason: Why it cannot be run, or not yet; ``None`` if it can.
        note: What is odd about the printed number.
        quantity: What the number is: ``test`` (accuracy or micro-F1 in percent), ``gain``
            (points that Dr adds to it), ``k1`` and ``k2`` (learnt K of a layer), ``seconds`` (of
            an epoch), ``recall`` (in percent), ``count`` or ``rate`` (in percent) of data.
        dataset: The dataset, by the catalogue's name where it is there.
        split: Its split.
        label: The row's name in our tables, such as ``gcn + dr``, also where nothing is run.
        stand_in: What can be looked at instead.
    """

    row: str
    column: str
    printed: PrintedNumber | None
    job: CellRecipe | None
    reason: str | None
    note: str | None = None
    quantity: Quantity = "test"
    dataset: str | None = None
    split: str | None = None
    label: str | None = None
    stand_in: str | None = None

    @property
    def runnable(self) -> bool:
        """Whether it can be run with data that everyone can have."""
        return self.job is not None and self.reason is None
