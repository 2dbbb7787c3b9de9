"""What may be said of a printed number after running its cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from drgcn.studies.comparison import Gain
from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.paper.table_cell import TableCell
from drgcn.studies.report.cell_rows import CellRows
from drgcn.studies.report.printed_difference import (
    PAPER_RUNS,
    printed_difference,
    within_rounding,
)
from drgcn.studies.report.tables import Row, rebuilt

Verdict = Literal["reproduced", "above", "below", "not comparable", "not run", "none printed"]
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)


@dataclass(frozen=True)
class CellVerdict:
    """A cell of a table with our values beside the printed number.

    Attributes:
        cell: The cell.
        values: Our values, one for each seed; empty where nothing is on record.
        difference: Ours less the printed one; ``None`` where one of them is missing.
        verdict: What follows.
        reason: Why it is not comparable, or was not run; empty otherwise.
    """

    cell: TableCell
    values: tuple[float, ...]
    difference: Gain | None
    verdict: Verdict
    reason: str = ""

    @property
    def words(self) -> str:
        """The verdict, with its reason."""
        return f"{self.verdict}: {self.reason}" if self.reason else self.verdict


def judge_table(table: PaperTable, rows: CellRows) -> list[CellVerdict]:
    """Every cell of a table that prints a number or was run, in the table's order."""
    found = [judge(table, cell, rows) for cell in table.cells]
    return [one for one in found if one.cell.printed is not None or one.values]


def judge(table: PaperTable, cell: TableCell, rows: CellRows) -> CellVerdict:
    """One cell.

    A number is reproduced if the 95 % interval of the difference holds zero, or if the
    difference is smaller than what printing so few digits leaves out.
    """
    if cell.quantity == "count":
        return _judge_count(table, cell, rows)
    values = tuple(rows.values(cell))
    row = None if cell.job is None else rows.find(cell.job)
    if not values or row is None:
        return CellVerdict(cell, (), None, "not run", _missing(table, cell, rows))
    if cell.printed is None:
        return CellVerdict(cell, values, None, "none printed")
    difference = printed_difference(values, cell.printed.mean, cell.printed.std)
    if reason := _incomparable(cell, row, values):
        return CellVerdict(cell, values, difference, "not comparable", reason)
    alike = within_rounding(difference.mean, cell.printed.decimals)
    if alike or difference.low <= 0 <= difference.high:
        return CellVerdict(cell, values, difference, "reproduced")
    return CellVerdict(cell, values, difference, "above" if difference.mean > 0 else "below")


def _judge_count(table: PaperTable, cell: TableCell, rows: CellRows) -> CellVerdict:
    """A count of data has no spread: it is the printed one, or it is not."""
    count = rows.count(cell)
    if count is None or cell.printed is None:
        return CellVerdict(cell, (), None, "not run", _missing(table, cell, rows))
    over = count - cell.printed.mean
    verdict: Verdict = "reproduced" if over == 0 else "above" if over > 0 else "below"
    return CellVerdict(cell, (float(count),), Gain(over, over, over), verdict)


def count_verdicts(found: Sequence[CellVerdict]) -> dict[Verdict, int]:
    """How many cells have which verdict, all verdicts named."""
    return {verdict: sum(one.verdict == verdict for one in found) for verdict in VERDICTS}


def _missing(table: PaperTable, cell: TableCell, rows: CellRows) -> str:
    if cell.job is not None and (error := rows.failed.error(cell.job)):
        return f"it failed ({error})"
    if cell.reason:
        return cell.reason.rstrip(".")
    if cell.job is None:
        return "nothing to train for it"
    return f"no record here yet; drgcn reproduce {table.name}"


def _incomparable(cell: TableCell, row: Row, values: Sequence[float]) -> str:
    """Why a difference says nothing about the printed number; empty if it may."""
    record, _ = row
    if cell.quantity == "seconds":
        return f"other code on another machine ({record.environment['device']})"
    if rebuilt(record):
        return "rebuilt features"
    if str(record.data.get("feature_source", "")).startswith("generated"):
        return "made-up data"
    if len(values) < PAPER_RUNS:
        return f"{len(values)} of {PAPER_RUNS} seeds"
    if not all(map(math.isfinite, values)):
        return "some seeds have no number"
    return ""
