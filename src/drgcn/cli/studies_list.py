"""What ``drgcn studies list`` prints, in whatever width there is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from drgcn.studies.paper.status import TableCounts

_HEADS = ("printed", "can\nbe run", "need\ndata", "on\nrecord", "all\nseeds")
_LEAST = 14  # columns of a title that can be read
_EDGES = 3  # columns that a further column takes beside its words


def print_list(counts: Sequence[TableCounts]) -> None:
    """One line per table, and the sums. Names are there to be typed, so they are always whole:
    titles get the width that is left, or none, and on a narrower screen lines run over."""
    console = Console()
    needed = Console(width=1000).measure(_table(counts, titles=False)).maximum
    titles = console.width >= needed + _EDGES + _LEAST
    Console(width=max(console.width, needed)).print(_table(counts, titles=titles))


def _table(counts: Sequence[TableCounts], *, titles: bool) -> Table:
    sums = [sum(column) for column in zip(*(one.cells for one in counts), strict=True)]
    table = Table(show_footer=True)
    table.add_column("name", "all", no_wrap=True)
    table.add_column("paper", no_wrap=True)
    if titles:
        table.add_column("what it shows")
    for head, total in zip(_HEADS, sums, strict=False):
        table.add_column(head, str(total), justify="right", no_wrap=True)
    for one in counts:
        title = [one.title] if titles else []
        table.add_row(one.name, str(one.number or ""), *title, *map(str, one.cells))
    return table
