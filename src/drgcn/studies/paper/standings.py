"""Which of the paper's numbers are reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from drgcn.studies.comparison import summarize
from drgcn.studies.paper.published import Published, published
from drgcn.studies.paper.tables import usual_rows
from drgcn.studies.report.tables import rebuilt
from drgcn.studies.run_record import RunRecord

#: What counts as a deviation where none is printed.
TOLERANCE: Final = 0.5


@dataclass(frozen=True)
class Standing:
    """A row of ours beside its published number.

    Attributes:
        dataset: Name of the dataset.
        split: Its split.
        model: The model, by the name of its recipe.
        label: The row's name.
        mean: Our test accuracy in percent.
        printed: What the paper prints.
    """

    dataset: str
    split: str
    model: str
    label: str
    mean: float
    printed: Published

    @property
    def reached(self) -> bool:
        """Whether it lies no further below than one printed deviation."""
        std = TOLERANCE if self.printed.std is None else self.printed.std
        return self.mean >= self.printed.mean - std

    def __str__(self) -> str:
        return (
            f"{self.label} on {self.dataset} ({self.split}) has {self.mean:.2f} where "
            f"{self.printed} is printed"
        )


def standings(records: Sequence[RunRecord]) -> list[Standing]:
    """All rows that have a published number for the very same features."""
    found = []
    for record, seeds in usual_rows(records):
        printed = published(record.experiment)
        if printed is not None and not rebuilt(record):
            ran, mean = record.experiment, summarize(seeds).mean
            found.append(Standing(ran.dataset, ran.split, ran.model, ran.label, mean, printed))
    return found


def reached_words(found: Sequence[Standing], what: str, *, names: bool = True) -> str:
    """How many are reached, and which are not.

    Args:
        found: The rows to speak of.
        what: What they are, in words.
        names: Whether to list those that are not reached.
    """
    short = [str(row) for row in found if not row.reached]
    missed = f" Short of it: {'; '.join(short)}." if short and names else ""
    return (
        f"Of {len(found)} numbers the paper prints for {what}, on data at hand, "
        f"{len(found) - len(short)} are reached or exceeded within one printed deviation "
        f"({TOLERANCE} where none is printed).{missed}"
    )
