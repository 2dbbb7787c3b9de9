"""Accuracies and K printed in the paper, by experiment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Final

from drgcn.studies.experiment import Experiment, recipe, unusual
from drgcn.studies.paper.page import paper_table_of
from drgcn.studies.paper.table import PrintedNumber

#: Tables of accuracies. Where several print a row, the first has it; Table 5 repeats others.
RESULTS: Final = ("main", "ppi", "reddit-norms", "full", "semi", "norms", "pre-activation")


@dataclass(frozen=True)
class Published:
    """A printed accuracy (or micro-F1) in percent; ``std`` is ``None`` where none is printed."""

    mean: float
    std: float | None
    table: str
    decimals: int

    def __str__(self) -> str:
        return f"{self.mean}" if self.std is None else f"{self.mean} ± {self.std}"


def published(experiment: Experiment) -> Published | None:
    """Return the number that the paper prints for an experiment of this kind, if any.

    Only for the usual training; another hidden width is let pass, because the paper does not
    restate it on every split.
    """
    if unusual(replace(experiment, hidden_channels=_usual_width(experiment))):
        return None
    found = _numbers().get((experiment.dataset, experiment.split, experiment.label))
    if found is None:
        return None
    number, table = found
    return Published(number.mean, number.std, table, number.decimals)


def published_seconds() -> dict[str, float]:
    """Return the seconds of an epoch on Reddit by row (Table 6), on hardware that is not named."""
    return {
        cell.label: cell.printed.mean
        for cell in paper_table_of("reddit-norms").printed
        if cell.quantity == "seconds" and cell.label and cell.printed
    }


@cache
def _numbers() -> Mapping[tuple[str, str, str], tuple[PrintedNumber, str]]:
    """Return accuracies and their table, by dataset, split and row."""
    found: dict[tuple[str, str, str], tuple[PrintedNumber, str]] = {}
    for table in map(paper_table_of, RESULTS):
        for cell in table.printed:
            if cell.job is not None and cell.quantity == "test" and cell.printed is not None:
                ran = cell.job.experiment
                place = (ran.dataset, ran.split, ran.label)
                found.setdefault(place, (cell.printed, table.heading))
    return MappingProxyType(found)


def _usual_width(experiment: Experiment) -> int:
    return recipe(experiment.dataset, experiment.split, experiment.model).hidden_channels


@dataclass(frozen=True)
class PublishedK:
    """A column of Table 5: Dr-ASGCN, a sampled model, fully supervised.

    Attributes:
        k: Learnt K of both layers.
        plain: Accuracy of ASGCN in percent.
        dr: Accuracy of Dr-ASGCN.
    """

    k: tuple[float, float]
    plain: float
    dr: float

    @property
    def gain(self) -> float:
        """Accuracy that Dr added, in points."""
        return self.dr - self.plain


# NOTE[PAPER] Table 5 calls two sets CoraE and CiteseerE, as no other place does. Its accuracies of
# them are those of CoraR and CiteseerR in Table 2 to the last digit, so they are taken for these.
# Over what K was averaged is not stated.
@cache
def paper_k() -> Mapping[tuple[str, str], PublishedK]:
    """Return the columns of Table 5 by dataset and split."""
    numbers: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for cell in paper_table_of("k").printed:
        if cell.dataset and cell.split and cell.printed:
            what = str(cell.label) if cell.quantity == "test" else cell.quantity
            numbers[cell.dataset, cell.split][what] = cell.printed.mean
    return MappingProxyType(
        {
            place: PublishedK((found["k1"], found["k2"]), found["asgcn"], found["asgcn + dr"])
            for place, found in numbers.items()
        }
    )


def published_k(dataset: str, split: str) -> tuple[float, ...]:
    """Return K per layer of Dr-ASGCN on a dataset; empty where the paper prints none.

    It prints none for any other model, so it can stand beside a row, never for it.
    """
    found = paper_k().get((dataset, split))
    return () if found is None else found.k
