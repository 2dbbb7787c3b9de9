"""Rows of a comparison with and without gates: summed up, tested, and judged in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from drgcn._format import plural
from drgcn.reporting.tables import Table
from drgcn.stats import (
    LEVEL,
    Decision,
    Interval,
    Summary,
    correction_words,
    decide,
    mean_interval,
)
from drgcn.studies.records import ERRORS, SeedResult

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
# Standard errors of a guess on the test nodes by which a row must beat it to have learnt.
_ERRORS: Final = 2.0


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


def gate_place(gate: str | None) -> tuple[int, str]:
    """Return the sort key of a gate: plain, Dr and the controls first, others by name."""
    return (GATES.index(gate), "") if gate in GATES else (len(GATES), str(gate))


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


def verdict(decided: Mapping[Pair, Decision], unit: str = "points", digits: int = 2) -> str:
    """Say what the comparison of a plain model, Dr and the control gates comes to.

    Args:
        decided: All :data:`PAIRS`, judged in one family as by :func:`decide_rows`, or each in a
            family of its own.
        unit: Unit of the differences.
        digits: Their decimal places.
    """
    words = {pair: decision.words_in(unit, digits) for pair, decision in decided.items()}
    over_plain = decided["dr", None]
    if over_plain.test.seeds < 2:
        return "One seed allows no comparison: twenty are usual."
    over_blind = {name: decided["dr", name] for name in _BLIND}
    match over_plain.sign:
        case "unsure":
            seeds = over_plain.test.seeds
            sentence = f"Over {seeds} seeds, Dr makes no sure difference ({words['dr', None]})."
        case "down":
            sentence = f"Dr costs accuracy ({words['dr', None]})."
        case "up":
            sentence = f"Dr gains over the plain model ({words['dr', None]}), "
            sentence += _explanation(over_blind, {name: words["dr", name] for name in _BLIND})
    sure = [f"{name} gate {words[name, None]}" for name in _BLIND if decided[name, None].sure]
    if sure:
        sentence += f" Blind gates that differ from plain: {'; '.join(sure)}."
    correction = correction_words(*(decision.family for decision in decided.values()))
    return f"{sentence} Sure is a corrected p below {LEVEL} ({correction})."


def _explanation(over_blind: Mapping[str, Decision], words: Mapping[str, str]) -> str:
    """Say if gates that see no data explain a gain of Dr."""
    matched = [name for name, over in over_blind.items() if over.sign != "up"]
    if matched:
        return (
            f"but not surely over the {' and the '.join(matched)} gate, blind to data: the gain "
            f"is not shown to come from reading the data."
        )
    name = min(over_blind, key=lambda name: over_blind[name].test.gain.mean)
    return (
        f"and over both gates that are blind to data (over the {name} gate {words[name]}): a "
        f"smaller step or a fixed gate alone does not explain it."
    )


class Scores(NamedTuple):
    """Test and validation accuracy of one seed."""

    test_accuracy: float
    val_accuracy: float


@dataclass(frozen=True)
class Guess:
    """The best answer that is the same for every test node.

    Attributes:
        score: The metric of that answer: for classes, the share of the most frequent one.
        nodes: Number of test nodes; for ROC-AUC, of nodes whose share would vary as much.
        metric: The metric.
        higher_is_better: False if the metric is an error.
        share: True if the metric is a share of something, which percent suit.
    """

    score: float
    nodes: int
    metric: str
    higher_is_better: bool = True
    share: bool = True

    @staticmethod
    def of(objective: Any, labels: Any) -> Guess:
        """Return the guess for labels by an objective of :mod:`drgcn.training`."""
        return Guess(
            objective.guess(labels),
            objective.sample_size(labels),
            objective.metric,
            objective.higher_is_better,
            objective.is_share,
        )

    @staticmethod
    def of_data(facts: Mapping[str, Any]) -> Guess | None:
        """Return the guess that a run record knows for its data; earlier ones know none."""
        if "guess" not in facts or "guess_nodes" not in facts:
            return None
        metric = str(facts.get("metric") or "accuracy")
        more = metric not in ERRORS
        return Guess(facts["guess"], facts["guess_nodes"], metric, more, share=more)

    def is_beaten_by(self, scores: Sequence[float]) -> bool:
        """Return whether the mean of some scores is better than the guess by more than chance on
        as many test nodes."""
        mean = float(np.mean(scores))
        if not self.share:
            return mean > self.score if self.higher_is_better else mean < self.score
        error = math.sqrt(max(self.score * (1 - self.score), 0.0) / self.nodes)
        return mean > self.score + _ERRORS * error

    @property
    def is_relative(self) -> bool:
        """True if differences are taken relative to the error of the guess."""
        return not (self.higher_is_better or self.share) and self.score > 0

    def worth(self, score: float) -> float:
        """Return a score in hundredths of the unit of differences, so that more is better."""
        if self.share:
            return score
        if self.is_relative:
            return 1 - score / self.score
        return score / 100 if self.higher_is_better else -score / 100

    def number(self, score: float) -> float:
        """Return a score as it is printed: shares in percent."""
        return 100 * score if self.share else score

    @property
    def unit(self) -> str:
        """The metric with its unit."""
        return f"{self.metric} %" if self.share else self.metric

    @property
    def digits(self) -> int:
        """Decimal places of a printed score."""
        return 2 if self.share else 4

    @property
    def gain_unit(self) -> str:
        """Unit of the differences between rows, where it is not that of the metric."""
        return ", % of the error of a guess" if self.is_relative else ""

    @property
    def gain_form(self) -> tuple[str, int]:
        """Unit of a difference in a sentence, and its decimal places."""
        points = self.share or self.is_relative
        return ("points", 2) if points else (f"in {self.metric}", self.digits)

    @property
    def words(self) -> str:
        """The guess in words."""
        if self.metric == "accuracy":
            return f"the most frequent class is {100 * self.score:.2f} % of the test nodes"
        if self.share:
            return f"one answer for all test nodes reaches {self.metric} {100 * self.score:.2f} %"
        return f"one answer for all test nodes reaches {self.metric} {self.score:.4g}"

    @property
    def unbeaten(self) -> str:
        """The sentence for a comparison no row of which is better."""
        return (
            f"Nothing was learnt: no row is better than a guess ({self.words}), and a comparison "
            f"of guesses says nothing about the gates. Train longer, or look at features, labels "
            f"and the metric first."
        )


@dataclass(frozen=True)
class Comparison:
    """Results of one model with several gates, on the same seeds.

    Attributes:
        rows: Results by gate and seed; the gate ``None`` is the plain model.
        guess: The best answer that looks at no node.
        fits: The result of each gate, with its models, where :func:`drgcn.compare` trained them.
    """

    rows: Mapping[str | None, Mapping[int, Tested]]
    guess: Guess
    fits: Mapping[str | None, Any] = field(default_factory=dict, repr=False)

    @property
    def judged(self) -> Mapping[str | None, Mapping[int, Tested]]:
        """Rows in which more is better: of an error, the share by which it is below a guess's."""
        if self.guess.share:
            return self.rows
        worth = self.guess.worth
        return {
            gate: {s: Scores(worth(result.test_accuracy), math.nan) for s, result in row.items()}
            for gate, row in self.rows.items()
        }

    @property
    def decided(self) -> dict[Pair, Decision]:
        """Tests of the pairs of rows, corrected as one family."""
        return decide_rows(self.judged)

    @property
    def learnt(self) -> bool:
        """True if some row is better than a guess that looks at no node."""
        return any(
            self.guess.is_beaten_by([result.test_accuracy for result in row.values()])
            for row in self.rows.values()
        )

    @property
    def verdict(self) -> str | None:
        """Verdict in words; ``None`` if one of the four rows is missing."""
        if not set(GATES) <= self.rows.keys():
            return None
        if not self.learnt:
            return self.guess.unbeaten
        return verdict(self.decided, *self.guess.gain_form)

    def over_plain(self, gate: str | None) -> Interval | None:
        """Return the points of a gate above the plain model, with their 95 % interval; for an
        error, the percent of the guess's error by which it is lower; for other metrics that are
        no shares, the difference in their own unit."""
        if gate is None or None not in self.rows:
            return None
        return gain(self.judged[gate], self.judged[None])

    def summary(self) -> str:
        """Return a table in Markdown, and the verdict below it."""
        cells = []
        _, digits = self.guess.gain_form
        for gate, row in self.rows.items():
            found = Summary.of([self.guess.number(r.test_accuracy) for r in row.values()])
            words = found.words(self.guess.digits)
            gained = self.over_plain(gate)
            cells.append((gate or "plain", words, gained.words(digits) if gained else ""))
        seeds = max(len(row) for row in self.rows.values())
        over = f"over plain [95 %]{self.guess.gain_unit}"
        heads = (plural(seeds, "seed"), f"test {self.guess.unit}", over)
        table = Table(heads, cells, left=1).markdown()
        return "\n\n".join(part for part in (table, self.verdict) if part)
