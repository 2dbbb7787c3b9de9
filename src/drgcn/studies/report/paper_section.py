"""Every table of the paper with our numbers beside the printed ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.report.cell_rows import CellRows
from drgcn.studies.report.cell_verdict import CellVerdict, count_verdicts, judge_table
from drgcn.studies.report.interval_svg import interval_pictures
from drgcn.studies.report.text_table import TextTable

_HEADS = ("row", "column", "published", "ours", "difference [95 %]", "seeds", "verdict")
_COUNTS = (0, 1, 2, 3, 6)  # places of the heads that are left where data is counted
_MISSING = ("row", "column", "published", "not run: why")


@dataclass(frozen=True)
class JudgedTable:
    """A table of the paper, every cell judged.

    Attributes:
        table: The table.
        found: Its cells.
    """

    table: PaperTable
    found: tuple[CellVerdict, ...]

    @property
    def run(self) -> tuple[CellVerdict, ...]:
        """Cells with something of ours."""
        return tuple(one for one in self.found if one.values)

    @property
    def counts_data(self) -> bool:
        """Whether it counts data, and nothing in it is trained."""
        return all(one.cell.quantity in ("count", "rate") for one in self.found)

    @property
    def trained(self) -> bool:
        """Whether anything was trained for it."""
        return bool(self.run) and not self.counts_data

    @property
    def tables(self) -> list[TextTable]:
        """What was run, and what was not."""
        parts = [self._run_table()] if self.run else []
        missing = [one for one in self.found if not one.values]
        return parts + ([self._missing_table(missing)] if missing else [])

    def _run_table(self) -> TextTable:
        if all(one.cell.printed is None for one in self.run):
            return self._own_table()
        marks = _marks(self.run)
        notes = [] if self.table.about is None else [self.table.about]
        notes += [f"({mark}) {' '.join(note.split())}" for note, mark in marks.items()]
        rows = [_row(one, marks) for one in self.run]
        whole = TextTable(
            name=self.table.name,
            title=self.table.heading,
            heads=_HEADS,
            rows=tuple(rows),
            notes=tuple(notes),
            left=2,
            kinds=tuple(one.verdict.replace(" ", "-") for one in self.run),
        )
        if self.counts_data:
            return replace(_columns(whole, _COUNTS), folded=True)
        pictures = interval_pictures([one.difference for one in self.run])
        return replace(whole, pictures=tuple(pictures))

    def _own_table(self) -> TextTable:
        """A table of our own, with its rows and columns: nothing is printed to stand beside."""
        ours = {(one.cell.row, one.cell.column): _mean_words(one.values, 2) for one in self.run}
        rows = tuple(
            (row, *(ours.get((row, column), "") for column in self.table.columns))
            for row in self.table.rows
            if any((row, column) in ours for column in self.table.columns)
        )
        seeds = sorted({len(one.values) for one in self.run})
        notes = [] if self.table.about is None else [self.table.about]
        notes.append(f"Mean ± standard deviation over {' or '.join(map(str, seeds))} seeds.")
        heads = ("", *self.table.columns)
        return TextTable(self.table.name, self.table.heading, heads, rows, tuple(notes))

    def _missing_table(self, missing: Sequence[CellVerdict]) -> TextTable:
        rows = [
            (one.cell.row, one.cell.column, str(one.cell.printed), _why(one)) for one in missing
        ]
        count = f"{len(missing)} printed number{'s' * (len(missing) > 1)}"
        title = f"{self.table.heading}: {count} not run"
        return TextTable(
            f"{self.table.name}-not-run", title, _MISSING, tuple(rows), left=2, folded=True
        )


def judged_tables(tables: Sequence[PaperTable], rows: CellRows) -> list[JudgedTable]:
    """All tables, every cell judged."""
    return [JudgedTable(table, tuple(judge_table(table, rows))) for table in tables]


def overview(judged: Sequence[JudgedTable]) -> TextTable:
    """How many numbers of each table came out how."""
    heads = ("reproduced", "above", "below", "not comparable", "not run")
    rows = []
    for one in judged:
        counted = count_verdicts(one.found)
        printed = [each for each in one.found if each.cell.printed is not None]
        if printed:
            numbers = [str(counted[name]) for name in heads]  # type: ignore[index]
            rows.append((one.table.heading, str(len(printed)), *numbers))
    return TextTable("overview", "All tables", ("table", "printed numbers", *heads), tuple(rows))


def _columns(table: TextTable, places: Sequence[int]) -> TextTable:
    """A table with some of its columns."""
    rows = tuple(tuple(row[place] for place in places) for row in table.rows)
    return replace(table, heads=tuple(table.heads[place] for place in places), rows=rows)


def _row(one: CellVerdict, marks: dict[str, str]) -> tuple[str, ...]:
    cell, printed = one.cell, one.cell.printed
    digits = 2 if printed is None else max(printed.decimals, 2)
    if cell.quantity == "count":
        ours, difference, seeds = f"{one.values[0]:,.0f}", "", ""
    else:
        ours, seeds = _mean_words(one.values, digits), str(len(one.values))
        difference = _difference_words(one)
    published = "" if printed is None else str(printed)
    mark = f" ({marks[cell.note]})" if cell.note else ""
    return (cell.row + mark, cell.column, published, ours, difference, seeds, one.words)


def _mean_words(values: Sequence[float], digits: int) -> str:
    mean = f"{np.mean(values):.{digits}f}"
    return mean + (f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else "")


def _difference_words(one: CellVerdict) -> str:
    if one.difference is None:
        return ""
    return str(one.difference) if len(one.values) > 1 else f"{one.difference.mean:+.2f}"


def _marks(run: Sequence[CellVerdict]) -> dict[str, str]:
    """A letter for every remark on a cell, in the order they occur."""
    notes = dict.fromkeys(one.cell.note for one in run if one.cell.note)
    return {note: chr(ord("a") + place) for place, note in enumerate(notes) if note}


def _why(one: CellVerdict) -> str:
    stand_in = one.cell.stand_in
    return one.reason + (f". Instead: {stand_in}" if stand_in else "")
