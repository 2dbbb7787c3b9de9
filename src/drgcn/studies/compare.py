"""``compare``: any model plain, with Dr and with control gates, on the same seeds, and judged."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from drgcn.errors import InputError
from drgcn.insertion import insert_reweighting
from drgcn.reporting.tables import Table
from drgcn.stats import Decision, Interval, Summary
from drgcn.studies.comparison import GATES, Pair, Tested, decide_rows, gain, verdict
from drgcn.training import FitResult, fit
from drgcn.training.objectives import LossChoice, MetricChoice, is_share
from drgcn.training.task import TaskData, tested_labels

# Standard errors of a guess on the test nodes by which a row must beat it to have learnt.
_ERRORS: Final = 2.0


def compare(
    make_model: Callable[..., torch.nn.Module],
    data: TaskData,
    seeds: Iterable[int],
    *,
    gates: Sequence[str | None] = GATES,
    split: int | None = None,
    **options: Any,
) -> Comparison:
    """Train a model plain, with Dr and with both control gates on the same seeds, and judge.

    All rows of a seed begin with the same weights of your model.

    Args:
        make_model: Builds your model of PyG convolutions, into which gates are inserted. If it
            takes an argument, that is the gate, and it builds the model with it, such as
            ``lambda gate: drgcn.nn.GCN(..., reweight=gate)``.
        data: See :func:`drgcn.fit`.
        seeds: The seeds; a verdict needs several, and twenty are usual.
        gates: Rows to train; the verdict needs all four.
        split: Column of masks ``[nodes, splits]``.
        **options: Passed on to :func:`drgcn.fit`.

    Example:
        >>> from torch_geometric.nn import GCN
        >>> from drgcn import load
        >>> data = load("planted", nodes=200, labels_per_class=5, val_per_class=10)
        >>> found = compare(lambda: GCN(data.num_features, 8, 2, 4), data, range(2), epochs=2)
        >>> list(found.fits)
        [None, 'dr', 'static', 'constant']
    """
    wrong = [gate for gate in gates if gate not in GATES]
    if wrong or not gates:
        raise InputError(f"Expected gates out of {list(GATES)}; found {wrong or 'none'}.")
    # Before the training, as it may refuse a metric.
    guess = Guess.of(data, split, loss=options.get("loss"), metric=options.get("metric"))
    seeds = tuple(seeds) if isinstance(seeds, Iterable) else seeds  # an iterator is read once
    fits = {g: fit(_gated(make_model, g), data, seeds, split=split, **options) for g in gates}
    rows = {
        gate: {
            seed: Scores(*scores)
            for seed, *scores in zip(
                result.seeds, result.test_accuracy, result.val_accuracy, strict=True
            )
        }
        for gate, result in fits.items()
    }
    return Comparison(rows, guess, fits)


def _gated(
    make_model: Callable[..., torch.nn.Module], gate: str | None
) -> Callable[[], torch.nn.Module]:
    """Return a function that builds the model of a row."""
    if isinstance(make_model, torch.nn.Module) or not callable(make_model):
        return make_model  # which fit refuses
    parameters = inspect.signature(make_model).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.default is p.empty and p.kind in positional]
    if len(needed) == 1:
        return lambda: make_model(gate)
    if gate is None:
        return make_model
    return lambda: insert_reweighting(make_model(), gate=gate)  # type: ignore[arg-type]


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
    """

    score: float
    nodes: int
    metric: str
    higher_is_better: bool = True

    @staticmethod
    def of(
        data: TaskData,
        split: int | None = None,
        *,
        loss: LossChoice = None,
        metric: MetricChoice = None,
    ) -> Guess:
        """Return the guess for the test nodes of a graph."""
        labels, objective = tested_labels(data, split, loss, metric)
        return Guess(
            objective.guess(labels),
            objective.sample_size(labels),
            objective.metric,
            objective.higher_is_better,
        )

    def is_beaten_by(self, scores: Sequence[float]) -> bool:
        """Return whether the mean of some scores is better than the guess by more than chance on
        as many test nodes."""
        mean = float(np.mean(scores))
        if not is_share(self.metric):
            return mean > self.score if self.higher_is_better else mean < self.score
        error = math.sqrt(max(self.score * (1 - self.score), 0.0) / self.nodes)
        return mean > self.score + _ERRORS * error

    def number(self, score: float) -> float:
        """Return a score as it is printed: shares in percent."""
        return 100 * score if is_share(self.metric) else score

    @property
    def unit(self) -> str:
        """The metric with its unit."""
        return f"{self.metric} %" if is_share(self.metric) else self.metric

    @property
    def digits(self) -> int:
        """Decimal places of a printed score."""
        return 2 if is_share(self.metric) else 4

    @property
    def gain_unit(self) -> str:
        """Unit of the differences between rows, where it is not that of the metric."""
        return "" if self.higher_is_better else ", % of the error of a guess"

    @property
    def words(self) -> str:
        """The guess in words."""
        if self.metric == "accuracy":
            return f"the most frequent class is {100 * self.score:.2f} % of the test nodes"
        if is_share(self.metric):
            return f"one answer for all test nodes reaches {self.metric} {100 * self.score:.2f} %"
        return f"one answer for all test nodes reaches {self.metric} {self.score:.4g}"


@dataclass(frozen=True)
class Comparison:
    """Results of one model with several gates, on the same seeds.

    Attributes:
        rows: Results by gate and seed; the gate ``None`` is the plain model.
        guess: The best answer that looks at no node.
        fits: The result of each gate, with its models, where :func:`compare` has trained them.
    """

    rows: Mapping[str | None, Mapping[int, Tested]]
    guess: Guess
    fits: Mapping[str | None, FitResult] = field(default_factory=dict, repr=False)

    @property
    def judged(self) -> Mapping[str | None, Mapping[int, Tested]]:
        """Rows in which more is better: of an error, the share by which it is below a guess's."""
        if self.guess.higher_is_better or not self.guess.score:
            return self.rows
        return {
            gate: {
                seed: Scores(1 - result.test_accuracy / self.guess.score, math.nan)
                for seed, result in row.items()
            }
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
            return (
                f"Nothing was learnt: no row is better than a guess ({self.guess.words}), and a "
                f"comparison of guesses says nothing about the gates. Train longer, or look at "
                f"features, labels and the metric first."
            )
        return verdict(self.decided)

    def over_plain(self, gate: str | None) -> Interval | None:
        """Return the points of a gate above the plain model, with their 95 % interval; for an
        error, the percent of the guess's error by which it is lower."""
        if gate is None or None not in self.rows:
            return None
        return gain(self.judged[gate], self.judged[None])

    def summary(self) -> str:
        """Return a table in Markdown, and the verdict below it."""
        cells = []
        for gate, row in self.rows.items():
            found = Summary.of([self.guess.number(r.test_accuracy) for r in row.values()])
            words = found.words(self.guess.digits)
            cells.append((gate or "plain", words, str(self.over_plain(gate) or "")))
        seeds = max(len(row) for row in self.rows.values())
        over = f"over plain [95 %]{self.guess.gain_unit}"
        heads = (f"{seeds} seeds", f"test {self.guess.unit}", over)
        table = Table(heads, cells, left=1).markdown()
        return "\n\n".join(part for part in (table, self.verdict) if part)
