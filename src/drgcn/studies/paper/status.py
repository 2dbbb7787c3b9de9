"""Facts about a table: recipes of its cells, models that build, seeds on record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

import torch

from drgcn.errors import InputError
from drgcn.records import BaselineRecord
from drgcn.studies.build import build, stopping_rule
from drgcn.studies.experiment import Experiment, departures
from drgcn.studies.paper.page import paper_table_of
from drgcn.studies.paper.table import CellRecipe, CellState, PaperTable, TableCell
from drgcn.studies.records import RunRecord
from drgcn.studies.report.verdicts import CellRows
from drgcn.training import BestValidation, Patience

_BUDGET: Final = ("epochs", "rule", "patience", "watch")
_NAMED: Final = ("dataset", "split", "model", "reweight", "norm", "pre_activation")
_REASONS: Final[dict[CellState | None, str]] = {
    "run apart": "run apart",
    "needs data": "needs",
    "private": "private",
}
# Of data that the paper does not count: its recipes fit whatever widths there are.
_SOME_WIDTHS = (16, 2)

#: Seeds by recipe, and then by content of the data and build.
Recorded = Mapping[tuple[str, str], Mapping[tuple[str, ...], set[int]]]


def table_facts(table: PaperTable) -> dict[str, Any]:
    """Return a table with all its cells, ready for JSON."""
    return {
        "name": table.name,
        "number": table.number,
        "title": table.title,
        "label": table.label,
        "unit": table.unit,
        "about": table.about,
        "rows": list(table.rows),
        "columns": list(table.columns),
        "cells": [cell_facts(cell, table.seeds) for cell in table.cells],
    }


def cell_facts(cell: TableCell, seeds: int) -> dict[str, Any]:
    """Return the printed number of a cell and the recipe of its experiment."""
    facts: dict[str, Any] = {
        "row": cell.row,
        "column": cell.column,
        "quantity": cell.quantity,
        "printed": None if cell.printed is None else asdict(cell.printed),
        "dataset": cell.dataset,
        "split": cell.split,
        "model": cell.label,
        "runnable": cell.runnable,
        "state": cell.state,
        "reason": cell.reason,
        "stand_in": cell.stand_in,
        "note": cell.note,
    }
    if cell.job is not None:
        facts |= {
            "normalize": cell.job.normalize,
            "settings": cell_settings(cell.job.experiment),
            "budget": _budget(cell.job.experiment),
            "seeds": list(range(seeds)),
            "experiment": cell.job.experiment.to_dict(),
        }
    return facts


def cell_settings(experiment: Experiment) -> dict[str, Any]:
    """Return settings that differ from the defaults, but for the row's name and the budget."""
    found = departures(experiment, Experiment(experiment.dataset, experiment.split))
    options = found.pop("options", {})
    rest = {name: value for name, value in found.items() if name not in (*_NAMED, *_BUDGET)}
    return rest | options


def cell_words(cell: TableCell, seeds: int) -> list[str]:
    """Describe a cell in lines, the first being its place and number."""
    lines = [f"{cell.row} | {cell.column}: {cell.printed or 'no number printed'}"]
    if cell.job is not None:
        ran = cell.job.experiment
        settings = ", ".join(f"{k} {v}" for k, v in cell_settings(ran).items())
        lines += [
            f"  {ran.dataset} ({ran.split}), features scaled: {cell.job.normalize}; {ran.label}",
            f"  settings: {settings or 'all at their default'}",
            f"  budget: {seeds} seeds from 0, at most {ran.epochs} epochs, {_rule_words(ran)}",
        ]
    if cell.reason is not None:
        lines.append(f"  {_REASONS.get(cell.state, 'not run')}: {cell.reason}")
    if cell.stand_in is not None:
        lines.append(f"  instead: {cell.stand_in}")
    if cell.note is not None:
        lines.append(f"  note: {cell.note}")
    return lines


def _budget(experiment: Experiment) -> dict[str, Any]:
    found = {name: getattr(experiment, name) for name in _BUDGET}
    if experiment.rule != "patience":
        del found["watch"]  # which no other rule reads
    return found


def _rule_words(experiment: Experiment) -> str:
    watched = {"both": "loss or accuracy", "accuracy": "accuracy", "loss": "loss"}
    match stopping_rule(experiment):
        case BestValidation(patience=None):
            return "the best on validation"
        case BestValidation(patience=patience):
            return f"the best on validation, stopped after {patience} epochs without a better one"
        case Patience(patience=patience, watch=watch):
            return f"stopped after {patience} epochs without a better validation {watched[watch]}"
        case _:
            return "stopped when the validation loss rises"


def check_table(table: PaperTable) -> int:
    """Build the model of every cell that has a recipe, without data, and return their number.

    Raises:
        InputError: At the first cell whose model cannot be built.
    """
    built = 0
    for cell in table.cells:
        if cell.job is None:
            continue
        experiment = cell.job.experiment
        features, classes = _widths().get(experiment.dataset, _SOME_WIDTHS)
        stub: Any = SimpleNamespace(
            num_features=features, dataset=SimpleNamespace(classes=classes)
        )
        try:
            with torch.device("meta"):  # shapes without numbers: nothing is allocated
                build(experiment, stub)
            stopping_rule(experiment)
        except InputError as error:
            raise InputError(
                f"table {table.name}, row {cell.row!r}, column {cell.column!r}: {error}"
            ) from None
        built += 1
    return built


@cache
def _widths() -> dict[str, tuple[int, int]]:
    """Return features and classes of the paper's datasets, as it prints them."""
    found: dict[str, dict[str, int]] = {}
    for name in ("datasets", "datasets-citation"):
        for cell in paper_table_of(name).printed:
            if cell.dataset and cell.printed:
                found.setdefault(cell.dataset, {})[cell.row[:7]] = int(cell.printed.mean)
    return {name: (rows["Feature"], rows["Classes"]) for name, rows in found.items()}


@dataclass(frozen=True)
class TableCounts:
    """Numbers of cells of a table.

    Attributes:
        name: The table's name.
        number: Its number in the paper.
        title: Its title.
        printed: Cells with a printed number.
        runnable: Cells that can be run.
        need_data: Cells that could be, if the user had the data.
        run_apart: Cells that ``drgcn baselines`` runs.
        counted: Cells that count or describe data.
        private: Cells of data that nobody else can have.
        on_record: Runnable cells of which any seed is on record; ``None`` if nobody looked.
        complete: Those of which every seed is, trained by one build.
        not_run: Runnable cells of which no seed is on record.
        apart_complete: Cells run apart of which every seed is on record, of whatever builds.
        apart_not_run: Cells run apart of which no seed is.
    """

    name: str
    number: int | None
    title: str
    printed: int
    runnable: int
    need_data: int
    run_apart: int = 0
    counted: int = 0
    private: int = 0
    on_record: int | None = None
    complete: int | None = None
    not_run: int | None = None
    apart_complete: int | None = None
    apart_not_run: int | None = None

    @property
    def cells(self) -> tuple[int, ...]:
        """Counts that are known, in the order above, without what follows from the others."""
        counts = (self.printed, self.runnable, self.need_data, self.run_apart)
        looked = (self.complete, self.not_run)
        return (*counts, *(count for count in looked if count is not None))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, without counts that nobody asked for."""
        looked = {"on_record", "complete", "not_run", "apart_complete", "apart_not_run"}
        return {k: v for k, v in asdict(self).items() if v is not None or k not in looked}


def table_counts(
    table: PaperTable, known: Recorded | None = None, baselines: Iterable[BaselineRecord] = ()
) -> TableCounts:
    """Count the cells of a table by their state.

    Args:
        table: The table.
        known: Seeds on record, if they are to be counted.
        baselines: Records of cells that are run apart.
    """
    seeds = [0 if known is None else seeds_of(cell, known) for cell in table.runnable]
    states = Counter(cell.state for cell in table.cells)
    rows = CellRows([], baselines=baselines)
    apart = [
        table.seeds if cell.exact and rows.values(cell) else len(rows.values(cell))
        for cell in table.cells
        if cell.baseline is not None
    ]
    return TableCounts(
        name=table.name,
        number=table.number,
        title=table.title,
        printed=len(table.printed),
        runnable=len(table.runnable),
        need_data=states["needs data"],
        run_apart=states["run apart"],
        counted=states["counted"],
        private=states["private"],
        on_record=None if known is None else sum(count > 0 for count in seeds),
        complete=None if known is None else sum(count >= table.seeds for count in seeds),
        not_run=None if known is None else sum(count == 0 for count in seeds),
        apart_complete=None if known is None else sum(n >= table.seeds for n in apart),
        apart_not_run=None if known is None else sum(n == 0 for n in apart),
    )


def recorded(records: Iterable[RunRecord]) -> Recorded:
    """Return the seeds on record by recipe, and then by content of the data and build.

    Records of data made with options of its own are left out: a recipe has none.
    """
    found: dict[tuple[str, str], dict[tuple[str, ...], set[int]]] = {}
    for record in records:
        if not record.data.get("options"):
            place = (record.experiment.identity(""), str(record.data.get("normalize")))
            seeds = found.setdefault(place, {})
            key = (record.data["content_hash"], *record.build)
            seeds[key] = seeds.get(key, set()) | record.seeds.keys()
    return found


def seeds_of(cell: TableCell, known: Recorded) -> int:
    """Return the number of seeds of a cell on record; of several contents and builds, the most.

    A gain needs both of its rows, of one build.
    """
    if cell.job is None:
        return 0
    found = _seeds(cell.job, known)
    if cell.quantity == "gain":
        plain = _seeds(
            replace(cell.job, experiment=replace(cell.job.experiment, reweight=None)), known
        )
        found = {key: seeds & plain[key] for key, seeds in found.items() if key in plain}
    return max(map(len, found.values()), default=0)


def _seeds(job: CellRecipe, known: Recorded) -> Mapping[tuple[str, ...], set[int]]:
    return known.get((job.experiment.identity(""), job.normalize), {})
