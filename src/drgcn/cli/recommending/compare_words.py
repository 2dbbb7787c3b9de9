"""What ``drgcn recommend compare`` says: on the way, and at the end."""

from __future__ import annotations

import json as jsonlib
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drgcn.recommend.study.records import StudyRecord
    from drgcn.recommend.study.run import Look
    from drgcn.recommend.study.settings import StudySettings
    from drgcn.recommend.study.tables import Rows

_LINE_EVERY = 10.0
_WIDTH = 130


def begin(settings: StudySettings, record: StudyRecord | None) -> Look | None:
    """Says what is run, and now and then how it goes."""
    words = f"{settings.model} {settings.gate}, seed {settings.seed}, lr {settings.lr:g}"
    if record is not None:
        print(f"{words}: on record", file=sys.stderr, flush=True)
        return None
    print(words, file=sys.stderr, flush=True)
    said = time.perf_counter()

    def look(step: int, loss: float, recall: float) -> None:
        nonlocal said
        if time.perf_counter() - said > _LINE_EVERY:
            said = time.perf_counter()
            line = f"  {settings.gate}, seed {settings.seed}: step {step}, loss {loss:.4f}"
            if recall == recall:  # it is not a number where nothing is validated
                line += f", validation {100 * recall:.2f} %"
            print(line, file=sys.stderr, flush=True)

    return look


def show(records: list[StudyRecord], json: bool) -> None:
    """Prints recall of every gate, its differences from the others, and what they come to."""
    from drgcn.recommend.study.tables import (
        comparisons,
        difference_rows,
        recall_rows,
        title,
        verdict,
    )

    found = comparisons(records)
    if json:
        tests = [record.recall() for record in records]
        names = [record.file_name for record in records]
        print(jsonlib.dumps({"records": names, "recall": tests, "verdict": verdict(found[0])}))
        return
    for one in found:
        print(f"{title(one)}; in %, mean and deviation over seeds")
        _print(recall_rows(one).transposed())
    if (differences := difference_rows(found)).rows:
        _print(differences)
        print(verdict(found[0]))


def _print(rows: Rows) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for place, name in enumerate(rows.header):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    for row in rows.rows:
        table.add_row(*row)
    console = Console()
    console.width = max(console.width, _WIDTH)  # a number cut in half is worse than a long line
    console.print(table)
