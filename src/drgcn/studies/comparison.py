"""Rows of a comparison summed up over seeds, and the verdict on their gates in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from drgcn.stats import (
    LEVEL,
    Decision,
    Interval,
    Summary,
    correction_words,
    decide,
    mean_interval,
)
from drgcn.studies.records import SeedResult

Results = Mapping[int, SeedResult]
#: A row and what it is held against, by their gates.
Pair = tuple[str, str | None]

#: Gates of a whole comparison: none, Dr, and two that are blind to data.
GATES: Final = (None, "dr", "static", "constant")
#: The comparisons of their rows.
PAIRS: Final[tuple[Pair, ...]] = (
    ("dr", None),
    ("dr", "static"),
    ("dr", "constant"),
    ("static", None),
    ("constant", None),
)
_BLIND: Final = ("static", "constant")


class Tested(Protocol):
    """Result of one seed of a row."""

    @property
    def test_accuracy(self) -> float:
        """Test accuracy, or another metric between 0 and 1."""


@dataclass(frozen=True)
class RowSummary(Summary):
    """Test accuracy of a row in percent over seeds, and means of what was measured beside it.

    Attributes:
        val_mean: Mean validation accuracy in percent.
        best_epoch: Mean epoch that was kept.
        k: Learnt K of every layer, mean over the seeds where it is defined.
    """

    val_mean: float
    best_epoch: float
    k: tuple[float, ...]


def summarize(results: Results) -> RowSummary:
    """Sum up the seeds of a row."""
    test = Summary.of([100 * result.test_accuracy for result in results.values()])
    layers = zip(*(result.k for result in results.values()), strict=True)
    return RowSummary(
        mean=test.mean,
        std=test.std,
        seeds=test.seeds,
        val_mean=float(np.mean([100 * result.val_accuracy for result in results.values()])),
        best_epoch=float(np.mean([result.best_epoch for result in results.values()])),
        k=tuple(_mean_of_defined(layer) for layer in layers),
    )


def _mean_of_defined(values: Sequence[float | None]) -> float:
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined else math.nan


def k_words(values: Sequence[float | None]) -> str:
    """Format K of every layer, to two digits however small; a dash where it is undefined."""

    def word(value: float | None) -> str:
        if value is None or math.isnan(value):
            return "-"
        return f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"

    return " ".join(map(word, values))


def differences(results: Mapping[int, Tested], baseline: Mapping[int, Tested]) -> list[float]:
    """Points of test accuracy above a baseline, for every seed that both have."""
    seeds = sorted(results.keys() & baseline.keys())
    return [100 * (results[s].test_accuracy - baseline[s].test_accuracy) for s in seeds]


def gain(results: Mapping[int, Tested], baseline: Mapping[int, Tested]) -> Interval:
    """Mean of :func:`differences` with its 95 % interval."""
    return mean_interval(differences(results, baseline))


def decide_rows(rows: Mapping[str | None, Mapping[int, Tested]]) -> dict[Pair, Decision]:
    """Judge the rows of one comparison: its :data:`PAIRS` are the family.

    Args:
        rows: Results by gate; pairs of which a row is missing are left out.
    """
    pairs = [pair for pair in PAIRS if set(pair) <= rows.keys()]
    family = decide([differences(rows[gate], rows[other]) for gate, other in pairs])
    return dict(zip(pairs, family, strict=True))


def verdict(decided: Mapping[Pair, Decision]) -> str:
    """Say what the comparison of a plain model, Dr and the control gates comes to.

    Args:
        decided: All :data:`PAIRS`, judged in one family as by :func:`decide_rows`, or each in a
            family of its own.
    """
    over_plain = decided["dr", None]
    if over_plain.test.seeds < 2:
        return "One seed allows no comparison: use --seeds 20."
    over_blind = {name: decided["dr", name] for name in _BLIND}
    match over_plain.sign:
        case "unsure":
            seeds = over_plain.test.seeds
            sentence = f"Over {seeds} seeds, Dr makes no sure difference ({over_plain.words})."
        case "down":
            sentence = f"Dr costs accuracy ({over_plain.words})."
        case "up":
            sentence = f"Dr gains over the plain model ({over_plain.words}), "
            sentence += _explanation(over_blind)
    blind = {name: decided[name, None] for name in _BLIND}
    sure = [f"{name} gate {over.words}" for name, over in blind.items() if over.sure]
    if sure:
        sentence += f" Blind gates that differ from plain: {'; '.join(sure)}."
    correction = correction_words(*(decision.family for decision in decided.values()))
    return f"{sentence} Sure is a corrected p below {LEVEL} ({correction})."


def _explanation(over_blind: Mapping[str, Decision]) -> str:
    """Say if gates that see no data explain a gain of Dr."""
    matched = [name for name, over in over_blind.items() if over.sign != "up"]
    if matched:
        return (
            f"but not surely over the {' and the '.join(matched)} gate, blind to data: the gain "
            f"is not shown to come from reading the data."
        )
    name, least = min(over_blind.items(), key=lambda item: item[1].test.gain.mean)
    return (
        f"and over both gates that are blind to data (over the {name} gate {least.words}): a "
        f"smaller step or a fixed gate alone does not explain it."
    )
