"""Which recorded seeds stand behind a cell of a table, and what they measured."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from drgcn.studies.paper.cell_recipe import CellRecipe
from drgcn.studies.paper.table_cell import TableCell
from drgcn.studies.report.epoch_time import seconds_per_epoch
from drgcn.studies.report.failed_jobs import FailedJobs
from drgcn.studies.report.tables import Row, merge
from drgcn.studies.run_record import RunRecord

# Facts of data on record, by the word that the heads of the paper's tables begin with.
_COUNTS = {
    **{"nodes": "nodes", "edges": "edges", "classes": "classes", "features": "features"},
    **{"training": "train", "validation": "val", "test": "test"},
}


class CellRows:
    """Records, found by the recipe of a cell.

    Args:
        records: All records at hand.
        failed: Jobs that have none because they failed.
    """

    def __init__(self, records: Sequence[RunRecord], failed: FailedJobs | None = None) -> None:
        self.failed = failed or FailedJobs()
        self._rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for record, seeds in merge(records):
            key = (record.experiment.identity(""), str(record.data.get("normalize")))
            self._rows[key].append((record, seeds))
        self._data = {(r.data["name"], r.data["split"]): r.data for r in records}

    def find(self, job: CellRecipe) -> Row | None:
        """The row of a recipe: trained so, on features scaled so.

        Of several, which saw other content under one name, the one with most seeds, and of
        these the latest.
        """
        found = self._rows.get((job.experiment.identity(""), job.normalize), [])
        usual = [row for row in found if not row[0].data.get("options")]
        return max(usual, key=lambda row: (len(row[1]), row[0].started), default=None)

    def values(self, cell: TableCell) -> list[float]:
        """What each seed measured of a cell's quantity; empty where nothing is on record."""
        row = None if cell.job is None else self.find(cell.job)
        if cell.job is None or row is None:
            return []
        record, seeds = row
        match cell.quantity:
            case "test":
                return [100 * result.test_accuracy for result in seeds.values()]
            case "gain":
                return self._gains(cell.job, row)
            case "k1" | "k2":
                layer = int(cell.quantity[1]) - 1
                found = [result.k[layer] for result in seeds.values() if len(result.k) > layer]
                return [value for value in found if value is not None]
            case "seconds":
                return [seconds_per_epoch(record)]
            case _:
                return []

    def count(self, cell: TableCell) -> int | None:
        """What the records say of the data that a cell counts; ``None`` if they do not."""
        facts = self._data.get((cell.dataset, cell.split), {})
        found = re.match(r"[a-z]+", cell.row.lower())
        value = facts.get(_COUNTS.get(found[0], "")) if found else None
        return value if isinstance(value, int) else None

    def _gains(self, job: CellRecipe, row: Row) -> list[float]:
        """Points that Dr adds, seed by seed."""
        plain = self.find(replace(job, experiment=replace(job.experiment, reweight=None)))
        if plain is None or plain[0].data["content_hash"] != row[0].data["content_hash"]:
            return []
        with_dr, without = row[1], plain[1]
        shared = sorted(with_dr.keys() & without.keys())
        return [100 * (with_dr[s].test_accuracy - without[s].test_accuracy) for s in shared]
