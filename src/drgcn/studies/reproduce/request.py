"""What was asked for: tables, and the jobs that fill them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drgcn.studies.paper.all_tables import paper_table_of, paper_tables
from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.reproduce.job import Job
from drgcn.studies.reproduce.plan import jobs_of, plan
from drgcn.studies.reproduce.selection import Place, read_only, selected
from drgcn.studies.reproduce.stock import Stock

ALL = "all"


@dataclass(frozen=True)
class Request:
    """Tables with the cells that are meant, and the jobs for them.

    Attributes:
        tables: The tables.
        only: Filters, see :mod:`drgcn.studies.reproduce.selection`.
        controls: Whether the control gates are run beside Dr.
        jobs: What it takes, each job once.
        whole: Whether all tables were asked for, whatever can be run of them.
    """

    tables: tuple[PaperTable, ...]
    only: dict[str, list[str]]
    controls: bool
    jobs: tuple[Job, ...]
    whole: bool = False

    @classmethod
    def of(
        cls, names: Sequence[str], seeds: int | None, only: Iterable[str], controls: bool
    ) -> Request:
        """Reads what a command line says.

        Raises:
            InputError: If a table or filter is unknown, or no cell is left.
        """
        whole = ALL in names
        known = paper_tables() if whole else {name: paper_table_of(name) for name in names}
        return cls.for_tables(list(known.values()), seeds, read_only(only), controls, whole)

    @classmethod
    def for_tables(
        cls,
        tables: Sequence[PaperTable],
        seeds: int | None,
        only: Mapping[str, Sequence[str]],
        controls: bool,
        whole: bool = False,
    ) -> Request:
        """A request for tables that are at hand."""
        filters = {key: list(values) for key, values in only.items()}
        jobs = plan(tables, seeds, filters, controls)
        return cls(tuple(tables), filters, controls, tuple(jobs), whole)

    @property
    def places(self) -> list[Place]:
        """The cells that are meant, with their tables."""
        return selected(self.tables, self.only)

    @property
    def unrunnable(self) -> dict[str, list[Place]]:
        """Cells with a printed number for which there is nothing to train, by reason."""
        found: dict[str, list[Place]] = {}
        for table, cell in self.places:
            if cell.job is None and cell.printed is not None:
                found.setdefault(cell.reason or "no reason is given", []).append((table, cell))
        return found

    def cells_of(self, keys: Iterable[str]) -> int:
        """How many cells some jobs, by their keys, belong to."""
        wanted = set(keys)
        return sum(not wanted.isdisjoint(self._keys(place)) for place in self.places)

    def stuck(self, stock: Stock) -> list[str]:
        """Names of tables, asked for by name, of which nothing at all can be run here.

        If all tables were asked for, it takes all of them to be stuck.
        """
        able = {planned.job.key for planned in (*stock.todo, *stock.done)}
        by_table: dict[str, set[str]] = {}
        for place in self.places:
            by_table.setdefault(place[0].name, set()).update(self._keys(place))
        found = [name for name, keys in by_table.items() if able.isdisjoint(keys)]
        return [] if self.whole and len(found) < len(by_table) else found

    def _keys(self, place: Place) -> set[str]:
        return {job.key for job in jobs_of(place[1], 1, self.controls)}
