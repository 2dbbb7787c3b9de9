"""From tables to jobs: the request, the selection of cells, the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from drgcn.errors import InputError
from drgcn.studies.experiment import Experiment
from drgcn.studies.paper.page import paper_table_of, paper_tables
from drgcn.studies.paper.table import PaperTable, TableCell
from drgcn.studies.reproduce.jobs import Job
from drgcn.studies.reproduce.status import Stock

ALL = "all"


@dataclass(frozen=True)
class Request:
    """Tables with the cells that are meant, and the jobs for them.

    Attributes:
        tables: The tables.
        only: Filters, see :mod:`drgcn.studies.reproduce.plan`.
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


KEYS: Final = ("dataset", "model", "row")

Only = Mapping[str, Sequence[str]]
"""What a cell's dataset, model or row has to be: any of the words of each key that is given."""

Place = tuple[PaperTable, TableCell]


def read_only(pairs: Iterable[str]) -> dict[str, list[str]]:
    """Filters out of ``key=value``; a key that is given twice allows both values."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if key not in KEYS or not equals or not value:
            raise InputError(
                f"Expected --only with {', '.join(f'{known}=...' for known in KEYS)}; found "
                f"{pair!r}."
            )
        found.setdefault(key, []).append(value)
    return found


def selected(tables: Iterable[PaperTable], only: Only | None = None) -> list[Place]:
    """The cells that are meant, with their tables, in the order of the tables.

    Upper and lower case do not matter.

    Raises:
        InputError: If nothing is left; the message names what there is.
    """
    places = [(table, cell) for table in tables for cell in table.cells]
    for key, values in (only or {}).items():
        known = list(dict.fromkeys(word for _, cell in places if (word := _word(cell, key))))
        unknown = [v for v in values if v.lower() not in {word.lower() for word in known}]
        if unknown:
            raise InputError(
                f"Expected --only {key}= one of {', '.join(known) or 'nothing'}; found "
                f"{', '.join(unknown)}."
            )
    left = places
    for key, values in (only or {}).items():
        words = {value.lower() for value in values}
        before, left = left, [p for p in left if (_word(p[1], key) or "").lower() in words]
        if not left:
            there = dict.fromkeys(word for _, cell in before if (word := _word(cell, key)))
            raise InputError(
                f"Expected --only to leave a cell; with the other filters {key} is one of "
                f"{', '.join(there) or 'nothing'}, and not {', '.join(values)}. Leave one out."
            )
    return left


def _word(cell: TableCell, key: str) -> str | None:
    if key == "row":
        return cell.row
    if key == "dataset":
        return cell.dataset if cell.job is None else cell.job.experiment.dataset
    if cell.job is not None:
        return cell.job.experiment.model
    return None if cell.label is None else cell.label.partition(" + ")[0]


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
        only: Which cells, see :func:`~drgcn.studies.reproduce.plan.selected`.
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
