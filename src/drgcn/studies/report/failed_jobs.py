"""Jobs that failed, as ``drgcn reproduce`` left them beside the records."""

from __future__ import annotations

import warnings
from pathlib import Path

from drgcn.errors import DrgcnWarning, InputError
from drgcn.studies.experiment import Experiment
from drgcn.studies.paper.cell_recipe import CellRecipe
from drgcn.studies.reproduce.failure import Failure


class FailedJobs:
    """Why cells of a table have no record, where somebody tried.

    Args:
        folder: Where the records lie; nothing failed if not given.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._errors: dict[tuple[str, str | None], str] = {}
        for path in sorted((folder / "failures").glob("*.json")) if folder is not None else []:
            try:
                failure = Failure.read(path)
                experiment = Experiment(**failure.experiment)
            except (InputError, TypeError) as error:
                warnings.warn(f"left out a damaged failure. {error}", DrgcnWarning, stacklevel=2)
                continue
            self._errors[experiment.identity(""), failure.normalize] = failure.error

    def error(self, job: CellRecipe) -> str | None:
        """What went wrong with a recipe, in one line; ``None`` if nothing did."""
        name = job.experiment.identity("")
        return self._errors.get((name, job.normalize), self._errors.get((name, None)))
