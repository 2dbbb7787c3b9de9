"""What ``drgcn reproduce`` prints: the plan, the tables it filled, what went wrong."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drgcn.studies.paper.table import PaperTable
from drgcn.studies.reproduce.many import many
from drgcn.studies.reproduce.outcomes import JobReport, SuiteRecord
from drgcn.studies.reproduce.plan import Request
from drgcn.studies.reproduce.progress import duration_words
from drgcn.studies.reproduce.status import Results, Stock, filled_cells


def print_plan(request: Request, stock: Stock) -> None:
    """The jobs with seeds to train, the costliest first, and what cannot be run."""
    whole = sum(planned.cost for planned in stock.todo)
    table = Table("job", "seeds missing", "share of the cost")
    for planned in stock.todo:
        share = f"{100 * planned.cost / whole:.1f} %" if whole else ""
        missing = f"{len(planned.missing)} of {len(planned.job.seeds)}"
        table.add_row(escape(planned.job.name), missing, share)
    if stock.todo:
        Console().print(table)
    print(counts(request, stock))
    print_unrunnable(request, stock)


def counts(request: Request, stock: Stock) -> str:
    """The plan in one sentence."""
    cells = request.cells_of(planned.job.key for planned in (*stock.todo, *stock.done))
    return (
        f"{many(cells, 'cell')} of {many(len(request.tables), 'table')}, "
        f"{many(len(stock.todo) + len(stock.done), 'job')}: "
        f"{many(stock.recorded_seeds, 'seed')} on record, {stock.missing_seeds:,} to be trained "
        f"in {many(len(stock.todo), 'job')}."
    )


def print_unrunnable(request: Request, stock: Stock, *, error: bool = False) -> None:
    """What cannot be run and why: data that is not at hand, and cells without a recipe."""
    stream = sys.stderr if error else sys.stdout
    for dataset, reason in stock.reasons.items():
        jobs = sum(planned.job.experiment.dataset == dataset for planned in stock.absent)
        print(f"not run, {many(jobs, 'job')} on {dataset}: {reason}", file=stream)
    for reason, places in request.unrunnable.items():
        names = ", ".join(dict.fromkeys(table.name for table, _ in places))
        print(f"nothing to run for {many(len(places), 'cell')} of {names}: {reason}", file=stream)


def print_tables(tables: Sequence[PaperTable], results: Results) -> None:
    """Tables with our numbers above the printed ones; those without any are left out."""
    console = Console()
    for paper_table in tables:
        filled = filled_cells(paper_table, results)
        if not filled:
            continue
        table = Table("", *map(escape, paper_table.columns), title=escape(paper_table.heading))
        for row in paper_table.rows:
            if not any((row, column) in filled for column in paper_table.columns):
                continue
            words = []
            for column in paper_table.columns:
                printed = paper_table.cell(row, column).printed
                paper = f"[dim]paper {escape(printed.text)}[/dim]" if printed else ""
                words.append("\n".join(filter(None, [filled.get((row, column), ""), paper])))
            table.add_row(escape(row), *words)
        console.print(table)
        print(
            f"{paper_table.name}: {len(filled)} of {many(len(paper_table.cells), 'cell')} filled"
        )


def print_ending(record: SuiteRecord) -> None:
    """What was trained, in what time, and what was there before."""
    before = f"{many(record.seeds_recorded, 'seed')} on record before"
    others = ""
    if record.jobs_of_others:
        others = f"; {many(record.jobs_of_others, 'job')} done meanwhile by another run"
    if not record.jobs:
        print(f"nothing was left to train: {before}{others}")
        return
    jobs, time = many(record.jobs, "job"), duration_words(record.wall_seconds)
    print(f"{many(record.seeds_trained, 'seed')} of {jobs} trained in {time}, {before}{others}")


def print_stuck(tables: Sequence[str]) -> None:
    """Names tables of which nothing at all can be run here."""
    if tables:
        print(f"nothing can be run here for {', '.join(tables)}", file=sys.stderr)


def print_failures(reports: Sequence[JobReport]) -> None:
    """A short list of what failed."""
    failed = [report for report in reports if report.error is not None]
    if failed:
        print(f"{len(failed)} of {many(len(reports), 'job')} failed:", file=sys.stderr)
    for report in failed:
        print(f"  {report.job.name}: {report.error}", file=sys.stderr)
