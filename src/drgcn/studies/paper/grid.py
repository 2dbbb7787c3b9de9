"""The printed numbers of a table, as they stand on its page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drgcn.errors import InputError
from drgcn.studies.paper.printed_number import PrintedNumber

NOTHING = ("-", "--", "")


@dataclass(frozen=True)
class Grid:
    """Numbers by heads of row and column; ``None`` where nothing is printed."""

    numbers: dict[tuple[str, str], PrintedNumber | None]

    @classmethod
    def read(cls, text: str, rows: Iterable[str], columns: Iterable[str]) -> Grid:
        """Reads lines such as ``GCN | 85.9 ± 0.5 | -``, the first being the heads of columns.

        Args:
            text: The lines.
            rows: Heads that the lines must have, in this order.
            columns: Heads that the first line must have, in this order.
        """
        lines = [
            [part.strip() for part in line.split("|")]
            for line in text.splitlines()
            if line.strip()
        ]
        if not lines:
            raise InputError("Expected numbers in lines; found none: take numbers out or fill it")
        _expect_heads(lines[0][1:], columns, "columns")
        _expect_heads([line[0] for line in lines[1:]], rows, "rows")
        numbers: dict[tuple[str, str], PrintedNumber | None] = {}
        for row, *cells in lines[1:]:
            if len(cells) != len(lines[0]) - 1:
                raise InputError(
                    f"Expected {len(lines[0]) - 1} numbers in row {row!r}; found {len(cells)}: "
                    "write - where the paper prints nothing"
                )
            for column, cell in zip(lines[0][1:], cells, strict=True):
                numbers[row, column] = None if cell in NOTHING else PrintedNumber.read(cell)
        return cls(numbers)

    def at(self, row: str, column: str) -> PrintedNumber | None:
        """The number at a place."""
        return self.numbers[row, column]


def _expect_heads(found: list[str], expected: Iterable[str], what: str) -> None:
    heads = list(expected)
    if found != heads:
        raise InputError(
            f"Expected the numbers to have the {what} {', '.join(heads)}, in this order; found "
            f"{', '.join(found)}: make them the same"
        )
