"""A table of the paper, or one of our own in its place."""

from __future__ import annotations

from dataclasses import dataclass

from drgcn.studies.paper.table_cell import TableCell


@dataclass(frozen=True)
class PaperTable:
    """A table: what is printed in it, and what is run for it.

    Attributes:
        name: What commands call it.
        number: Its number in the paper; ``None`` for a table of our own.
        title: What it shows, in a few words.
        label: Its label in the paper's source.
        unit: What its numbers are.
        seeds: How many seeds each cell is run with; they are 0, 1, 2 and so on.
        rows: Heads of the rows.
        columns: Heads of the columns.
        cells: All cells, row by row.
        about: What a reader has to know, if anything.
    """

    name: str
    number: int | None
    title: str
    label: str | None
    unit: str
    seeds: int
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[TableCell, ...]
    about: str | None = None

    @property
    def heading(self) -> str:
        """``Table 2 (transductive datasets)``; the title alone for a table of our own."""
        return self.title if self.number is None else f"Table {self.number} ({self.title})"

    @property
    def printed(self) -> tuple[TableCell, ...]:
        """Cells with a printed number."""
        return tuple(cell for cell in self.cells if cell.printed is not None)

    @property
    def runnable(self) -> tuple[TableCell, ...]:
        """Cells that can be run with data that everyone can have."""
        return tuple(cell for cell in self.cells if cell.runnable)

    def cell(self, row: str, column: str) -> TableCell:
        """The cell at a place."""
        return self.cells[self.rows.index(row) * len(self.columns) + self.columns.index(column)]
