"""Plan of jobs for tables of the paper, and the selection of their cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from drgcn._format import plural
from drgcn.errors import InputError, warn
from drgcn.studies.experiment import Experiment
from drgcn.studies.paper.page import paper_table_of, paper_tables
from drgcn.studies.paper.table import CellRecipe, PaperTable, TableCell
from drgcn.studies.records import RunRecord
from drgcn.studies.report.tables import merge, row_name
from drgcn.studies.reproduce.jobs import Job
from drgcn.studies.reproduce.status import PlanStatus

ALL: Final = "all"
RECORDED: Final = "recorded"
KEYS: Final = ("dataset", "model", "row")
CONTROLS: Final = ("static", "constant")

Only = Mapping[str, Sequence[str]]
"""Allowed values of a cell's dataset, model or row; a key that is missing allows all."""

Place = tuple[PaperTable, TableCell]


@dataclass(frozen=True)
class Request:
    """Tables with the cells that are meant, and the jobs for them.

    Attributes:
        tables: The tables.
        only: Filters, see :func:`selected`.
        controls: Whether the control gates are run beside Dr.
        jobs: The jobs for them, each once.
        whole: Whether all tables were asked for, whatever can be run of them.
    """

    tables: tuple[PaperTable, ...]
    only: dict[str, list[str]]
    controls: bool
    jobs: tuple[Job, ...]
    whole: bool = False

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        seeds: int | None,
        only: Iterable[str],
        controls: bool,
        again: Sequence[RunRecord] = (),
    ) -> Request:
        """Read the arguments of the command line.

        Args:
            names: Names of tables, or ``all``.
            seeds: See :func:`plan`.
            only: Filters, see :func:`read_filters`.
            controls: See :func:`plan`.
            again: Records whose experiments are meant, too.

        Raises:
            InputError: If a table or filter is unknown, or no cell is left.
        """
        whole = ALL in names
        known = paper_tables() if whole else {name: paper_table_of(name) for name in names}
        tables = [*known.values(), *([recorded_table(again)] if again else [])]
        return cls.for_tables(tables, seeds, read_filters(only), controls, whole)

    @classmethod
    def for_tables(
        cls,
        tables: Sequence[PaperTable],
        seeds: int | None,
        only: Mapping[str, Sequence[str]],
        controls: bool,
        whole: bool = False,
    ) -> Request:
        """Return a request for tables that were read already."""
        filters = {key: list(values) for key, values in only.items()}
        jobs = plan(tables, seeds, filters, controls)
        return cls(tuple(tables), filters, controls, tuple(jobs), whole)

    @property
    def places(self) -> list[Place]:
        """The selected cells, with their tables."""
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
        """Return the number of cells that some jobs, by their keys, belong to."""
        wanted = set(keys)
        return sum(not wanted.isdisjoint(self._keys(place)) for place in self.places)

    def blocked_tables(self, status: PlanStatus) -> list[str]:
        """Return names of tables, asked for by name, of which nothing at all can be run here.

        If all tables were asked for, none counts as blocked unless every one is.
        """
        able = {planned.job.key for planned in status.runnable}
        by_table: dict[str, set[str]] = {}
        for place in self.places:
            by_table.setdefault(place[0].name, set()).update(self._keys(place))
        blocked = [name for name, keys in by_table.items() if able.isdisjoint(keys)]
        return [] if self.whole and len(blocked) < len(by_table) else blocked

    def _keys(self, place: Place) -> set[str]:
        return {job.key for job in jobs_of(place[1], 1, self.controls)}


def recorded_table(records: Sequence[RunRecord]) -> PaperTable:
    """Return a table with a cell for every experiment on record, to train them all again.

    Records of data that was made with options of its own are left out, with a warning: a job has
    none.
    """
    usual = [record for record in records if not record.data.get("options")]
    if len(usual) < len(records):
        warn(
            f"{plural(len(records) - len(usual), 'record')} of data with options of its own: not "
            f"trained again"
        )
    cells: dict[str, TableCell] = {}
    for record, _ in merge(usual):
        job = CellRecipe(record.experiment, str(record.data.get("normalize")))
        ran = record.experiment
        row = f"{ran.dataset} {ran.split} {row_name(record)} [{job.normalize}]"
        cells[row] = TableCell(
            *(row, RECORDED, None, job, None),
            dataset=ran.dataset,
            split=ran.split,
            label=ran.label,
        )
    return PaperTable(
        name=RECORDED,
        number=None,
        title="experiments on record",
        label=None,
        unit="percent, mean ± standard deviation over seeds",
        seeds=1 + max((max(record.seeds) for record in usual), default=0),
        rows=tuple(cells),
        columns=(RECORDED,),
        cells=tuple(cells.values()),
    )


def read_filters(pairs: Iterable[str]) -> dict[str, list[str]]:
    """Read filters of the form ``key=value``; a key that is given twice allows both values."""
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
    """Return the cells that pass the filters, with their tables, in the order of the tables.

    Upper and lower case do not matter.

    Raises:
        InputError: If nothing is left; the message names what there is.
    """
    places = [(table, cell) for table in tables for cell in table.cells]
    for key, values in (only or {}).items():
        known = list(dict.fromkeys(value for _, cell in places if (value := _value(cell, key))))
        unknown = [v for v in values if v.lower() not in {word.lower() for word in known}]
        if unknown:
            raise InputError(
                f"Expected --only {key}= one of {', '.join(known) or 'nothing'}; found "
                f"{', '.join(unknown)}."
            )
    left = places
    for key, values in (only or {}).items():
        words = {value.lower() for value in values}
        before, left = left, [p for p in left if (_value(p[1], key) or "").lower() in words]
        if not left:
            present = dict.fromkeys(value for _, cell in before if (value := _value(cell, key)))
            raise InputError(
                f"Expected --only to leave a cell; with the other filters {key} is one of "
                f"{', '.join(present) or 'nothing'}, and not {', '.join(values)}. Leave one out."
            )
    return left


def _value(cell: TableCell, key: str) -> str | None:
    if key == "row":
        return cell.row
    if key == "dataset":
        return cell.dataset if cell.job is None else cell.job.experiment.dataset
    if cell.job is not None:
        return cell.job.experiment.model
    return None if cell.label is None else cell.label.partition(" + ")[0]


def plan(
    tables: Iterable[PaperTable],
    seeds: int | None = None,
    only: Only | None = None,
    controls: bool = False,
) -> list[Job]:
    """Return the jobs that fill tables, each once, however many cells share it.

    Args:
        tables: The tables.
        seeds: Number of seeds, from 0; as many as each table asks for if not given.
        only: Filters of cells, see :func:`selected`.
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
    """Return the jobs of one cell, its own first; none if there is nothing to train."""
    if cell.job is None:
        return []
    return [
        Job(experiment, cell.job.normalize, tuple(range(seeds)))
        for experiment in _experiments(cell, controls)
    ]


def _experiments(cell: TableCell, controls: bool) -> Iterator[Experiment]:
    assert cell.job is not None
    own = cell.job.experiment
    yield own
    if cell.quantity == "gain" and own.reweight is not None:
        yield replace(own, reweight=None)
    if controls and own.reweight == "dr":
        for gate in CONTROLS:
            yield replace(own, reweight=gate)
