"""A table of the paper, its cells, and the numbers printed in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from drgcn.errors import InputError
from drgcn.studies.experiment import Experiment

_FORM = re.compile(r"(-?[\d,]*\.?\d+)\s*(?:±\s*(\d*\.?\d+))?\s*(%?)")
Quantity = Literal["test", "gain", "k1", "k2", "seconds", "recall", "count", "rate"]
CellState = Literal["can be run", "run apart", "needs data", "counted", "private"]


@dataclass(frozen=True)
class PrintedNumber:
    """A number of a table, as value and as text.

    Attributes:
        mean: The number.
        std: The number behind ``±``, the standard deviation over runs; ``None`` where there
            is none.
        text: As it is printed: ``"86.8 ± 0.5"``, ``"2,708"``, ``"42.3 %"``.
    """

    mean: float
    std: float | None
    text: str

    @classmethod
    def read(cls, text: str) -> PrintedNumber:
        """Read the number in a cell.

        Example:
            >>> PrintedNumber.read("86.8±0.5")
            PrintedNumber(mean=86.8, std=0.5, text='86.8 ± 0.5')
        """
        found = _FORM.fullmatch(text.strip())
        if found is None:
            raise InputError(
                f"Expected a number such as 86.8 ± 0.5, 2,708 or 42.3 %; found {text.strip()!r}: "
                "write - where the paper prints nothing"
            )
        mean, std, percent = found.groups()
        words = mean + (f" ± {std}" if std else "") + (" %" if percent else "")
        return cls(float(mean.replace(",", "")), float(std) if std else None, words)

    @property
    def decimals(self) -> int:
        """Digits behind the point: the number is rounded to so many."""
        return len(re.split(r"[ %]", self.text)[0].partition(".")[2])

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class CellRecipe:
    """An experiment, and how the features of its data are scaled.

    Attributes:
        experiment: The experiment: dataset, split, model, options and budget.
        normalize: The argument ``normalize`` of :func:`drgcn.load`.
    """

    experiment: Experiment
    normalize: str


@dataclass(frozen=True)
class TableCell:
    """A cell of a table: its printed number, and the recipe of its experiment.

    A cell with a recipe and a reason at once is one that this package can run as soon as the
    user has the data: the reason says which. A cell without a recipe has nothing to run.

    Attributes:
        row: Head of its row.
        column: Head of its column.
        printed: The printed number; ``None`` where the paper prints none.
        job: The recipe; ``None`` if nothing is trained.
        reason: Reason why it cannot be run, or not yet; ``None`` if it can.
        note: Remark on an oddity of the printed number.
        quantity: Kind of the number: ``test`` (accuracy or micro-F1 in percent), ``gain``
            (points that Dr adds to it), ``k1`` and ``k2`` (learnt K of a layer), ``seconds`` (of
            an epoch), ``recall`` (in percent), ``count`` or ``rate`` (in percent) of data.
        dataset: The dataset, by the catalogue's name where it is there.
        split: Its split.
        label: The row's name in our tables, such as ``gcn + dr``, also where nothing is run.
        stand_in: Table to look at instead.
        baseline: Method of ``drgcn baselines`` behind the number, if it is one of these.
        baseline_settings: Settings that its records must have; others may be anything.
        exact: Whether that method draws nothing, so that one run says all.
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
    baseline: str | None = None
    baseline_settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    exact: bool = False

    @property
    def runnable(self) -> bool:
        """True if it can be run with data that everyone can have."""
        return self.job is not None and self.reason is None

    @property
    def state(self) -> CellState | None:
        """Way to fill the cell; ``None`` for a place that the paper leaves empty."""
        if self.runnable:
            return "can be run"
        if self.baseline is not None:
            return "run apart"
        if self.job is not None:
            return "needs data"
        if self.printed is None:
            return None
        return "counted" if self.quantity in ("count", "rate") else "private"


@dataclass(frozen=True)
class PaperTable:
    """A table: its printed numbers, and the recipes behind them.

    Attributes:
        name: Its name on the command line.
        number: Its number in the paper; ``None`` for a table of our own.
        title: Its title, in a few words.
        label: Its label in the paper's source.
        unit: Unit of its numbers.
        seeds: How many seeds each cell is run with; they are 0, 1, 2 and so on.
        rows: Heads of the rows.
        columns: Heads of the columns.
        cells: All cells, row by row.
        about: Remark for readers, if any.
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
        """Return the cell at a place."""
        return self.cells[self.rows.index(row) * len(self.columns) + self.columns.index(column)]
