"""A plan that takes a second or two, and a program that runs it: for tests that kill it.

python small_plan.py OUT WORKERS
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from drgcn.studies.experiment import Experiment
from drgcn.studies.paper.table import CellRecipe, PaperTable, PrintedNumber, TableCell
from drgcn.studies.records import load_records
from drgcn.studies.reproduce.backend import run_suite
from drgcn.studies.reproduce.plan import plan
from drgcn.studies.reproduce.processes import ProcessRunner
from drgcn.studies.reproduce.progress import ProgressView
from drgcn.studies.reproduce.status import plan_status


def experiment(dataset="wine", model="gcn", reweight=None, **settings):
    usual = {"hidden_channels": 4, "epochs": 12}
    return Experiment(dataset, "random", model, reweight, **{**usual, **settings})


def cell(row, column, job, reason=None, **facts):
    recipe = None if job is None else CellRecipe(job, "standard")
    return TableCell(row, column, PrintedNumber.read("86.8 ± 0.5"), recipe, reason, **facts)


def table_of(cells, name="small", seeds=5):
    """A table with these cells, which are a full grid, row by row."""
    return PaperTable(
        name=name,
        number=None,
        title="a small table",
        label=None,
        unit="test accuracy in percent",
        seeds=seeds,
        rows=tuple(dict.fromkeys(c.row for c in cells)),
        columns=tuple(dict.fromkeys(c.column for c in cells)),
        cells=tuple(cells),
    )


def small_table(**settings):
    """Two datasets that need no files, two rows."""
    return table_of(
        [
            cell(row, dataset, experiment(dataset, reweight=gate, **settings))
            for row, gate in (("GCN", None), ("Dr-GCN", "dr"))
            for dataset in ("wine", "planted")
        ]
    )


def small_jobs(**settings):
    return plan([small_table(**settings)], controls=True)


def without_times(out):
    """What records hold but for times and environment, by experiment, data and seed.

    Fails if a seed is recorded twice.
    """
    found = {}
    for record in load_records(out):
        for seed, result in record.seeds.items():
            key = (record.identity, seed)
            assert key not in found, f"{key} is recorded twice"
            found[key] = (record.experiment, record.data, record.curve_epochs, result)
    return found


def main(out: Path, workers: int, **settings: int) -> None:
    status = plan_status(small_jobs(**settings), load_records(out))
    with ProgressView(status.todo, Console(stderr=True)) as view:
        moved = view.moved

        def tell(job, share):
            print("moved", flush=True)  # whoever waits for us knows that work has begun
            moved(job, share)

        view.moved = tell  # type: ignore[method-assign]
        _, ending = run_suite(status, out, ProcessRunner(workers, threads=1), view=view)
    sys.exit({"finished": 0, "interrupted": 130, "disk full": 1}[ending])


if __name__ == "__main__":
    folder, number, *rest = sys.argv[1:]
    main(Path(folder), int(number), **({"epochs": int(rest[0])} if rest else {}))
