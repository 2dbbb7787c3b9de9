"""``drgcn report``: tables and pictures from run records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drgcn.errors import InputError


def report(
    records: Annotated[Path, typer.Argument(help="Folder of run records.")] = Path("runs"),
    html: Annotated[Path | None, typer.Option(help="Write a self-contained page here.")] = None,
) -> None:
    """Print the tables of a folder of run records, and write them as a page.

    The second table has learnt K and stuck gates of every row with Dr.

    Example: drgcn report runs --html report.html
    """
    from drgcn.studies.report.k_table import k_table
    from drgcn.studies.report.page import write_report
    from drgcn.studies.report.tables import markdown_table
    from drgcn.studies.run_record import load_records

    found = load_records(records)
    if not found:
        raise InputError(f"Expected run records (*.json) in {records}; found none.")
    print(markdown_table(found))
    if gates := k_table(found):
        print(f"\n{gates}")
    if html is not None:
        print(f"\n{write_report(found, html, title='drgcn report')}")
