"""A table of words, the same for a page, for Markdown and for LaTeX."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextTable:
    """Heads and rows, ready to be set in whatever format.

    Attributes:
        name: Its anchor on a page, and the name of its file.
        title: What it shows.
        heads: Heads of the columns.
        rows: One word or number per column each.
        notes: What stands below it.
        left: How many columns, from the first, are words; the others are numbers.
        kinds: One word per row that says how to colour its last column, on a page; empty for none.
        pictures: One SVG per row, shown on a page before the last column; empty for none.
        folded: Whether a page shows its title alone until it is asked for the rest.
    """

    name: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    left: int = 1
    kinds: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    folded: bool = False

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.heads):
                raise ValueError(f"{self.name}: {len(row)} cells under {len(self.heads)} heads")
        for extra in (self.kinds, self.pictures):
            if extra and len(extra) != len(self.rows):
                raise ValueError(f"{self.name}: {len(extra)} extras for {len(self.rows)} rows")
