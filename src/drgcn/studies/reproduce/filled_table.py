"""A table with our numbers in the place of the printed ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from drgcn.studies.comparison import gain, summarize
from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.paper.table_cell import TableCell
from drgcn.studies.reproduce.job import Job
from drgcn.studies.run_record import SeedResult

Results = Mapping[str, Mapping[int, SeedResult]]
"""Results of every job by its key, and then by seed."""


def filled_cells(table: PaperTable, results: Results) -> dict[tuple[str, str], str]:
    """What our records say of the cells of a table, in words, by row and column.

    Cells without a result are left out. Times are for a report to tell: they depend on
    hardware and on what ran beside.
    """
    found = {}
    for cell in table.cells:
        words = _words(cell, results)
        if words:
            found[cell.row, cell.column] = words
    return found


def _words(cell: TableCell, results: Results) -> str:
    if cell.job is None:
        return ""
    own = Job(cell.job.experiment, cell.job.normalize, ())
    seeds = results.get(own.key)
    if not seeds:
        return ""
    summary = summarize(dict(seeds))
    number = f"n={summary.seeds}"
    match cell.quantity:
        case "test":
            return f"{summary.words(2)} ({number})"
        case "k1" | "k2" if len(summary.k) >= int(cell.quantity[1]):
            return f"{summary.k[int(cell.quantity[1]) - 1]:.2f} ({number})"
        case "gain":
            plain = Job(replace(cell.job.experiment, reweight=None), cell.job.normalize, ())
            others = results.get(plain.key)
            if others and seeds.keys() & others.keys():
                return f"{gain(dict(seeds), dict(others)).mean:+.2f} ({number})"
    return f"recorded ({number})"
