"""Wall time of whole suites, as ``drgcn reproduce`` left it beside the records."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
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
    "found seeds on record did not train them: compare those that found none, and "
    "of which others did no jobs.",
)


def suite_table(suites: Sequence[SuiteRecord]) -> TextTable | None:
    """One line per suite that trained something; ``None`` if there is none."""
    rows = tuple(_row(suite) for suite in suites if suite.seeds_trained)
    return TextTable("suites", "Whole suites", _HEADS, rows, _NOTES) if rows else None


def readable_suites(folder: Path | None) -> list[SuiteRecord]:
    """All that can be read beside the records of a folder, the oldest first; a damaged one is
    named and keeps no other from being shown."""
    found = []
    for path in sorted((folder / "suites").glob("*.json")) if folder is not None else []:
        try:
            found.append(SuiteRecord.read(path))
        except InputError as error:
            warnings.warn(f"left out a damaged suite. {error}", DrgcnWarning, stacklevel=3)
    return found


def _row(suite: SuiteRecord) -> tuple[str, ...]:
    only = [f"{name} {' '.join(values)}" for name, values in suite.only.items() if values]
    failed = f", {suite.failed} failed" if suite.failed else ""
    failed += f", {suite.jobs_of_others} more by others" if suite.jobs_of_others else ""
    return (
        *(", ".join([" ".join(suite.tables), *only]), suite.started[:16].replace("T", " ")),
        *(duration(suite.wall_seconds), f"{suite.cells:,}", f"{suite.seeds_trained:,}"),
        *(f"{suite.seeds_recorded:,}", f"{suite.jobs:,}{failed}", str(suite.workers)),
        *(str(suite.environment.get("device", "")), suite.ending),
    )
