"""Statistics over the seeds of a baseline."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from drgcn.baselines.record import SeedResult


@dataclass(frozen=True)
class Summary:
    """Accuracies in percent over seeds.

    Attributes:
        seeds: How many seeds.
        test: Mean on test nodes.
        test_deviation: Standard deviation (n - 1); ``None`` for one seed.
        val: Mean on validation nodes.
    """

    seeds: int
    test: float
    test_deviation: float | None
    val: float

    @classmethod
    def of(cls, results: Mapping[int, SeedResult]) -> Summary:
        """From the results of seeds, one or more."""
        test = [100 * result.test_accuracy for result in results.values()]
        val = [100 * result.val_accuracy for result in results.values()]
        spread = statistics.stdev(test) if len(test) > 1 else None
        return cls(len(test), statistics.fmean(test), spread, statistics.fmean(val))

    def words(self, digits: int) -> str:
        """``67.2 ± 0.5``; of one seed the number alone, which has no deviation."""
        spread = "" if self.test_deviation is None else f" ± {self.test_deviation:.{digits}f}"
        return f"{self.test:.{digits}f}{spread}"
