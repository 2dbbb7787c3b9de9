"""The records that stand behind one table of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drgcn.errors import InputError
from drgcn.studies.paper.paper_table import PaperTable
from drgcn.studies.report.cell_rows import CellRows
from drgcn.studies.run_record import RunRecord


def records_of_table(records: Sequence[RunRecord], table: PaperTable) -> list[RunRecord]:
    """Records of a table's cells, and those that differ from them in the gate alone.

    Raises:
        InputError: If there are none.
    """
    rows = CellRows(records)
    cells = [rows.find(cell.job) for cell in table.cells if cell.job is not None]
    wanted = {_family(row[0]) for row in cells if row is not None}
    found = [record for record in records if _family(record) in wanted]
    if not found:
        why = next((cell.reason for cell in table.cells if cell.reason), "")
        raise InputError(
            f"Expected records of the table {table.name}; found none"
            f"{'' if table.runnable or not why else f' ({why})'}. See what there is to run: "
            f"drgcn studies show {table.name}"
        )
    return found


def _family(record: RunRecord) -> str:
    plain = replace(record.experiment, reweight=None)
    return plain.identity(record.data["content_hash"])
