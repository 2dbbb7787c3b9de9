"""A cell's recipe with everything resolved, as plain values and in words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from drgcn.studies.experiment import Experiment, departures
from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.paper.table_cell import TableCell
from drgcn.studies.runner import stopping_rule
from drgcn.training import BestValidation, Patience

_BUDGET: Final = ("epochs", "rule", "patience", "watch")
_NAMED: Final = ("dataset", "split", "model", "reweight", "norm", "pre_activation")


def table_facts(table: PaperTable) -> dict[str, Any]:
    """A table with all its cells, ready for JSON."""
    return {
        **{"name": table.name, "number": table.number, "title": table.title},
        **{"label": table.label, "unit": table.unit, "about": table.about},
        **{"rows": list(table.rows), "columns": list(table.columns)},
        "cells": [cell_facts(cell, table.seeds) for cell in table.cells],
    }


def cell_facts(cell: TableCell, seeds: int) -> dict[str, Any]:
    """What is printed in a cell, and what is run for it."""
    facts: dict[str, Any] = {
        **{"row": cell.row, "column": cell.column, "quantity": cell.quantity},
        "printed": None if cell.printed is None else asdict(cell.printed),
        **{"dataset": cell.dataset, "split": cell.split, "model": cell.label},
        **{"runnable": cell.runnable, "reason": cell.reason, "stand_in": cell.stand_in},
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
    """What departs from the defaults, but for what the row's name and the budget say."""
    found = departures(experiment, Experiment(experiment.dataset, experiment.split))
    options = found.pop("options", {})
    told = {name: value for name, value in found.items() if name not in (*_NAMED, *_BUDGET)}
    return told | options


def cell_words(cell: TableCell, seeds: int) -> list[str]:
    """The same in lines, the first being its place and number."""
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
        lines.append(f"  {'needs' if cell.job is not None else 'not run'}: {cell.reason}")
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
