"""Wall time of whole suites, as ``drgcn reproduce`` left it beside the records."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drgcn.errors import DrgcnWarning, InputError
from drgcn.studies.report.provenance import duration
from drgcn.studies.report.text_table import TextTable
from drgcn.studies.reproduce.suite_record import SuiteRecord

_HEADS: Final = (
    *("tables", "started", "wall time", "cells", "seeds trained", "on record before"),
    *("jobs", "at once", "device", "ended"),
)
_NOTES: Final = (
    "From the start of the command to its end, with loading, start-up and writing. A suite that "
    "found seeds on record did not train them: compare those that found none.",
)


def suite_table(folder: Path | None) -> TextTable | None:
    """One line per suite that trained something, the oldest first; ``None`` if there is none.

    Args:
        folder: Where the records lie.
    """
    rows = tuple(_row(suite) for suite in _suites(folder) if suite.seeds_trained)
    return TextTable("suites", "Whole suites", _HEADS, rows, _NOTES) if rows else None


def _suites(folder: Path | None) -> Iterator[SuiteRecord]:
    """All that can be read; a damaged one is named and keeps no other from being shown."""
    for path in sorted((folder / "suites").glob("*.json")) if folder is not None else []:
        try:
            yield SuiteRecord.read(path)
        except InputError as error:
            warnings.warn(f"left out a damaged suite. {error}", DrgcnWarning, stacklevel=4)


def _row(suite: SuiteRecord) -> tuple[str, ...]:
    only = [f"{name} {' '.join(values)}" for name, values in suite.only.items() if values]
    failed = f", {suite.failed} failed" if suite.failed else ""
    return (
        *(", ".join([" ".join(suite.tables), *only]), suite.started[:16].replace("T", " ")),
        *(duration(suite.wall_seconds), f"{suite.cells:,}", f"{suite.seeds_trained:,}"),
        *(f"{suite.seeds_recorded:,}", f"{suite.jobs:,}{failed}", str(suite.workers)),
        *(str(suite.environment.get("device", "")), suite.ending),
    )
