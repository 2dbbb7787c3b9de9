"""``drgcn studies``: the paper's tables, their printed numbers and their recipes."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from drgcn.cli.options import Json

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from drgcn.records import BaselineRecord
    from drgcn.studies.paper.status import Recorded, TableCounts


app = typer.Typer(
    help="The paper's tables: printed numbers, recipes, and what cannot be run.",
    no_args_is_help=True,
)

Results = Annotated[
    Path | None,
    typer.Option(
        help="Folder of records: counts cells with all their seeds, and cells with none."
    ),
]

_HEADS = ("in\nprint", "can\nbe run", "need\ndata", "run\napart", "all\nseeds", "not\nrun")
_TITLE = "what it shows"
_LEAST = 14  # columns of a title that can be read
_EDGES = 3  # columns that a further column takes beside its words


@app.command("list")
def list_tables(results: Results = None, json: Json = False) -> None:
    """List the tables: numbers printed, cells that can be run, and those on record.

    Cells can be run by `drgcn reproduce`, need data that the user has to get first, or are run
    apart, by `drgcn baselines`; the rest counts data, or is of data that is private. With
    --results: how many of those that can be run have all seeds on record, trained by one build,
    and how many were not run.
    """
    from drgcn.studies.paper.page import paper_tables
    from drgcn.studies.paper.status import table_counts

    known, baselines = _recorded(results)
    counts = [table_counts(table, known, baselines) for table in paper_tables().values()]
    if json:
        print(jsonlib.dumps([one.to_dict() for one in counts]))
        return

    print_list(counts)


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="A table's name, or the path of a page (.toml).")],
    json: Json = False,
) -> None:
    """Show a table's recipe cell by cell: printed number, data, model, settings, budget."""
    from drgcn.studies.paper.page import table_or_page
    from drgcn.studies.paper.status import cell_words, table_facts

    table = table_or_page(name)
    if json:
        print(jsonlib.dumps(table_facts(table)))
        return
    print(f"{table.heading}\nNumbers: {table.unit}.")
    if table.about is not None:
        print(table.about)
    for cell in table.cells:
        print("\n" + "\n".join(cell_words(cell, table.seeds)))


@app.command("validate")
def validate(
    pages: Annotated[
        list[str] | None,
        typer.Argument(help="Tables or paths of pages.", show_default="all of the paper's"),
    ] = None,
) -> None:
    """Check that pages can be read, and that every model they name can be built."""
    from drgcn.studies.paper.page import NAMES, table_or_page
    from drgcn.studies.paper.status import check_table

    printed = built = 0
    for name in pages or NAMES:
        table = table_or_page(name)
        recipes = check_table(table)
        printed, built = printed + len(table.printed), built + recipes
        print(
            f"{table.name}: {len(table.rows)} rows, {len(table.columns)} columns, "
            f"{len(table.printed)} printed numbers, {recipes} recipes"
        )
    print(f"all in order: {printed} printed numbers, {built} recipes that build")


def _recorded(folder: Path | None) -> tuple[Recorded | None, list[BaselineRecord]]:
    from drgcn.errors import InputError
    from drgcn.records import BaselineRecord
    from drgcn.studies.paper.status import recorded
    from drgcn.studies.records import load_records

    if folder is None:
        return None, []
    if not folder.is_dir():
        raise InputError(f"Expected --results to be a folder of records; {folder} is none.")
    baselines = BaselineRecord.read_folder(folder / "baselines").values()
    return recorded(load_records(folder)), list(baselines)


def print_list(counts: Sequence[TableCounts]) -> None:
    """Print one line per table, the sums, and what becomes of every cell.

    Names are there to be typed, so they are always whole: titles get the width that is left, or
    none, and on a narrower screen lines run over.
    """
    from rich.console import Console

    console = Console()
    needed = Console(width=1000).measure(_table(counts, titles=False)).maximum
    titles = console.width >= needed + _EDGES + _LEAST
    Console(width=max(console.width, needed)).print(_table(counts, titles=titles))
    print(fill(state_words(counts), console.width))


def state_words(counts: Sequence[TableCounts]) -> str:
    """Say what becomes of every cell: it can be run, is run apart, or why it is not run."""

    def total(name: str) -> int:
        return sum(getattr(one, name) for one in counts)

    names = ("runnable", "run_apart", "need_data", "counted", "private")
    run, apart, data, counted, private = map(total, names)
    looked = counts[0].complete is not None
    own = f" ({total('complete')} with all seeds, {total('not_run')} with none)" if looked else ""
    other = f" ({total('apart_complete')} and {total('apart_not_run')})" if looked else ""
    return (
        f"Of {run + apart + data + counted + private} cells {run} can be run{own}, {apart} are "
        f"run apart by drgcn baselines{other}, {data} need data without a direct link, {counted} "
        f"count or describe data, and {private} are of private data."
    )


def _table(counts: Sequence[TableCounts], *, titles: bool) -> RichTable:
    from drgcn.reporting.tables import Table

    sums = [str(sum(column)) for column in zip(*(one.cells for one in counts), strict=True)]
    heads = ["name", "paper", _TITLE, *_HEADS[: len(sums)]]
    feet = ["all", "", "", *sums]
    rows = [[one.name, str(one.number or ""), one.title, *map(str, one.cells)] for one in counts]
    if not titles:
        for line in (heads, feet, *rows):
            del line[2]
    table = Table(heads, rows, left=len(heads) - len(sums)).rich()
    table.show_footer = True
    for column, foot in zip(table.columns, feet, strict=True):
        column.footer = foot
        column.no_wrap = column.header != _TITLE
    return table
