"""From tables to jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from drgcn.errors import InputError
from drgcn.studies.experiment import Experiment
from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.paper.table_cell import TableCell
from drgcn.studies.reproduce.job import Job
from drgcn.studies.reproduce.selection import Only, selected

CONTROLS = ("static", "constant")


def plan(
    tables: Iterable[PaperTable],
    seeds: int | None = None,
    only: Only | None = None,
    controls: bool = False,
) -> list[Job]:
    """The jobs that fill tables, each once, however many cells share it.

    Args:
        tables: What to fill.
        seeds: How many seeds, from 0; as many as each table asks for if not given.
        only: Which cells, see :func:`~drgcn.studies.reproduce.selection.selected`.
        controls: Run the static and the constant gate beside every cell with Dr, too.

    Raises:
        InputError: If no cell is left, or there are no seeds.
    """
    if seeds is not None and seeds < 1:
        raise InputError(f"Expected at least one seed; found {seeds}. Use 20.")
    wanted: dict[str, Job] = {}
    for table, cell in selected(tables, only):
        count = table.seeds if seeds is None else seeds
        for job in jobs_of(cell, count, controls):
            known = wanted.get(job.key)
            if known is None or len(known.seeds) < count:
                wanted[job.key] = job
    return list(wanted.values())


def jobs_of(cell: TableCell, seeds: int, controls: bool = False) -> list[Job]:
    """What one cell takes: its own job first; nothing if it has none."""
    if cell.job is None:
        return []
    every = tuple(range(seeds))
    return [Job(row, cell.job.normalize, every) for row in _rows(cell, controls)]


def _rows(cell: TableCell, controls: bool) -> Iterator[Experiment]:
    assert cell.job is not None
    own = cell.job.experiment
    yield own
    if cell.quantity == "gain" and own.reweight is not None:
        yield replace(own, reweight=None)
    if controls and own.reweight == "dr":
        for gate in CONTROLS:
            yield replace(own, reweight=gate)
