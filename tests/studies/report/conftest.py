from dataclasses import replace

import pytest

from drgcn.studies.experiment import recipe
from drgcn.studies.paper.table import CellRecipe, PaperTable, PrintedNumber, TableCell


@pytest.fixture
def make_cell():
    """A cell of plain GCN on fully supervised Cora, with changes."""

    def make(printed="86.4 ± 0.3", reweight=None, normalize="row", **changes):
        job = CellRecipe(recipe("cora", "full", "gcn", reweight=reweight), normalize)
        number = None if printed is None else PrintedNumber.read(printed)
        cell = TableCell("GCN", "Cora", number, job, None, dataset="cora", split="full")
        return replace(cell, **changes)

    return make


@pytest.fixture
def make_table():
    """A table of some cells, all in one row."""

    def make(*cells, **changes):
        cells = [replace(cell, column=f"{cell.column} {i}") for i, cell in enumerate(cells)]
        table = PaperTable(
            name="own",
            number=99,
            title="made here",
            label=None,
            unit="percent",
            seeds=20,
            rows=("GCN",),
            columns=tuple(cell.column for cell in cells),
            cells=tuple(cells),
        )
        return replace(table, **changes)

    return make


@pytest.fixture
def with_data():
    """A record with some facts of its data changed."""

    def change(record, **facts):
        return replace(record, data={**record.data, "normalize": "row", **facts})

    return change
