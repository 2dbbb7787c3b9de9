"""Statistics over seeds, and what may be concluded from them in one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from drgcn.studies.records import SeedResult

Results = Mapping[int, SeedResult]


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation (n - 1) of the test accuracy in percent."""

    mean: float
    std: float
    seeds: int
    val_mean: float
    best_epoch: float
    k: tuple[float, ...]

    def words(self, digits: int) -> str:
        """``86.8 ± 0.5``; of one seed the mean alone, which has no deviation."""
        spread = "" if math.isnan(self.std) else f" ± {self.std:.{digits}f}"
        return f"{self.mean:.{digits}f}{spread}"


def k_words(values: Sequence[float | None]) -> str:
    """K of every layer, to two digits however small; a dash where it is undefined."""

    def word(value: float | None) -> str:
        if value is None or math.isnan(value):
            return "-"
        return f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"

    return " ".join(map(word, values))


@dataclass(frozen=True)
class Gain:
    """A difference with its 95 % confidence interval: of two rows, paired by seed, or of a row
    and a number that somebody printed. In points of accuracy where nothing else is said."""

    mean: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        bounds = f" [{self.low:+.2f}, {self.high:+.2f}]" if math.isfinite(self.low) else ""
        return f"{self.mean:+.2f}{bounds}"


def summarize(results: Results) -> Summary:
    """The row of a table."""
    test = np.array([100 * result.test_accuracy for result in results.values()])
    layers = zip(*(result.k for result in results.values()), strict=True)
    return Summary(
        mean=float(test.mean()),
        std=float(test.std(ddof=1)) if len(test) > 1 else math.nan,
        seeds=len(test),
        val_mean=float(np.mean([100 * result.val_accuracy for result in results.values()])),
        best_epoch=float(np.mean([result.best_epoch for result in results.values()])),
        k=tuple(_mean_of_defined(layer) for layer in layers),
    )


def gain(results: Results, baseline: Results) -> Gain:
    """How many points ``results`` lie above ``baseline``, over the seeds they share."""
    seeds = sorted(results.keys() & baseline.keys())
    points = [100 * (results[s].test_accuracy - baseline[s].test_accuracy) for s in seeds]
    return mean_interval(points)


def mean_interval(values: Sequence[float]) -> Gain:
    """The mean of some values with its 95 % t-interval; without bounds if there is only one."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Gain(mean, -math.inf, math.inf)
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    return Gain(mean, mean - float(half), mean + float(half))


def verdict(rows: Mapping[str | None, Results]) -> str:
    """What the comparison of a plain model, Dr and the control gates says, in plain words."""
    seeds = len(rows["dr"])
    if seeds < 2:
        return "One seed allows no comparison: use --seeds 20."
    over_plain = gain(rows["dr"], rows[None])
    controls = {name: gain(rows["dr"], rows[name]) for name in ("static", "constant")}
    if not over_plain.sure:
        sentence = f"Over {seeds} seeds, Dr makes no sure difference ({_words(over_plain)})."
    elif over_plain.mean < 0:
        sentence = f"Dr costs accuracy ({_words(over_plain)})."
    elif matched := [name for name, over in controls.items() if not over.low > 0]:
        sentence = (
            f"Dr gains over the plain model ({_words(over_plain)}), but not surely over the "
            f"{' and the '.join(matched)} gate, blind to data: the gain is not shown to come from "
            f"reading the data."
        )
    else:
        name, least = min(controls.items(), key=lambda item: item[1].mean)
        sentence = (
            f"Dr gains over the plain model ({_words(over_plain)}), and over both gates that are "
            f"blind to data (over the {name} gate {_words(least)}): a smaller step or a fixed "
            f"gate alone does not explain it."
        )
    blind = {name: gain(rows[name], rows[None]) for name in ("static", "constant")}
    sure = [f"{name} gate {_words(over)}" for name, over in blind.items() if over.sure]
    return sentence + (f" Blind gates that differ from plain: {'; '.join(sure)}." if sure else "")


def _words(over: Gain) -> str:
    return f"{over.mean:+.2f} points, 95 % interval {over.low:+.2f} to {over.high:+.2f}"


def _mean_of_defined(values: Sequence[float | None]) -> float:
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined else math.nan
