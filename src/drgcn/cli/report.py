"""``drgcn report``: tables and pictures from run records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drgcn.errors import InputError


def report(
    records: Annotated[Path, typer.Argument(help="Folder of run records.")] = Path("runs"),
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page here.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables here.")] = None,
    latex: Annotated[
        Path | None, typer.Option(help="Write one file for each table into this folder.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="One table of the paper alone, such as `main`.")
    ] = None,
) -> None:
    """Summarise a folder of run records: against the paper's numbers, and Dr against plain.

    Prints the verdict and what stands beside it, all records, and learnt K and stuck gates of
    every row with Dr; with `--table` the verdict and that table.

    Example: drgcn report runs --html report.html
    """
    from drgcn.cli.options import expect_file, use_folder
    from drgcn.reporting.tables import write_latex
    from drgcn.studies.paper.page import paper_table_of, paper_tables
    from drgcn.studies.records import load_records
    from drgcn.studies.report.contents import contents, write_markdown, write_page
    from drgcn.studies.report.verdicts import records_of_table

    pages = list(paper_tables().values()) if table is None else [paper_table_of(table)]
    found = load_records(records)
    if not found:
        raise InputError(_found_none(records))
    if table is not None:
        found = records_of_table(found, pages[0])
    for option, path in (("--html", html), ("--markdown", markdown)):
        if path is not None:
            expect_file(path, option)
    if latex is not None:
        use_folder(latex, "--latex")
    whole = contents(found, pages, records)
    title = "drgcn report" if table is None else f"drgcn report: {pages[0].heading}"
    # Before anything is printed, which a closed pipe may end.
    written = (
        html and write_page(whole, html, title=title),
        markdown and write_markdown(whole, markdown, title=title),
        latex and write_latex(whole.tables, latex),
    )
    print("\n".join(whole.lines))
    shown = ("records-table", "k-and-stuck") if table is None else (table, f"{table}-not-run")
    for one in whole.tables:
        if one.name in shown:
            print(f"\n{one.markdown_section()}")
    for path in filter(None, written):
        print(f"\n{path}")


def _found_none(records: Path) -> str:
    """Return an error for a path without records, with advice."""
    expected = "Expected a folder of run records (*.json)"
    if records.is_file():
        return (
            f"{expected}; {records} is a file: give the folder that it lies in, {records.parent}"
        )
    if not records.exists():
        return (
            f"{expected}; there is no folder {records}: give another, or train some: drgcn train "
            f"planted --compare --out {records}"
        )
    return (
        f"{expected}; found none in {records}. Train some: drgcn train planted --compare --out "
        f"{records}"
    )
