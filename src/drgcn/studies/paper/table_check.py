"""Whether everything that a table says can be run can at least be built."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import torch

from drgcn.errors import InputError
from drgcn.studies.building import build
from drgcn.studies.paper.all_tables import paper_table_of
from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.runner import stopping_rule

# Of data that the paper does not count: its recipes fit whatever widths there are.
_SOME_WIDTHS = (16, 2)


def check_table(table: PaperTable) -> int:
    """Builds the model of every cell that has a recipe, on no data, and returns how many.

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
    """Features and classes of the paper's datasets, as it prints them."""
    found: dict[str, dict[str, int]] = {}
    for name in ("datasets", "datasets-citation"):
        for cell in paper_table_of(name).printed:
            if cell.dataset and cell.printed:
                found.setdefault(cell.dataset, {})[cell.row[:7]] = int(cell.printed.mean)
    return {name: (rows["Feature"], rows["Classes"]) for name, rows in found.items()}
