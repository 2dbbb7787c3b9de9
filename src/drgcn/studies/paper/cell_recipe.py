"""What is trained for a cell of a table."""

from __future__ import annotations

from dataclasses import dataclass

from drgcn.studies.experiment import Experiment


@dataclass(frozen=True)
class CellRecipe:
    """An experiment, and how the features of its data are scaled.

    Attributes:
        experiment: What to train; it names dataset, split, model, options and budget.
        normalize: What to give :func:`drgcn.load` as ``normalize``.
    """

    experiment: Experiment
    normalize: str
