"""A table in numbers: how much is printed, can be run, and is on record."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.paper.recorded import Recorded, seeds_of


@dataclass(frozen=True)
class TableCounts:
    """Cells of a table.

    Attributes:
        name: The table's name.
        number: Its number in the paper.
        title: What it shows.
        printed: Cells with a printed number.
        runnable: Cells that can be run.
        need_data: Cells that could be, if the user had the data.
        on_record: Runnable cells of which any seed is on record; ``None`` if nobody looked.
        complete: Those of which every seed is.
    """

    name: str
    number: int | None
    title: str
    printed: int
    runnable: int
    need_data: int
    on_record: int | None = None
    complete: int | None = None

    @property
    def cells(self) -> tuple[int, ...]:
        """The counts that are known, in the order above."""
        counts = (self.printed, self.runnable, self.need_data, self.on_record, self.complete)
        return tuple(count for count in counts if count is not None)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, without what nobody looked for."""
        looked = {"on_record", "complete"}
        return {k: v for k, v in asdict(self).items() if v is not None or k not in looked}


def table_counts(table: PaperTable, known: Recorded | None = None) -> TableCounts:
    """Counts the cells of a table.

    Args:
        table: The table.
        known: What is on record, if that is to be counted.
    """
    seeds = [
        0 if known is None or cell.job is None else seeds_of(cell.job, known)
        for cell in table.runnable
    ]
    return TableCounts(
        name=table.name,
        number=table.number,
        title=table.title,
        printed=len(table.printed),
        runnable=len(table.runnable),
        need_data=sum(cell.job is not None and not cell.runnable for cell in table.cells),
        on_record=None if known is None else sum(count > 0 for count in seeds),
        complete=None if known is None else sum(count >= table.seeds for count in seeds),
    )
