"""What a job will cost, as far as records tell."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from drgcn.studies.experiment import Experiment
from drgcn.studies.run_record import RunRecord


class CostEstimate:
    """Expects of a job what records say of its like.

    The nearest records that there are decide: those of the same model on the same split with
    the same budget, else those of the same model, else all; the latter two by epochs and by size
    of the graph. Without any record, epochs times size stand for the cost. That is enough to put
    jobs in order and to compare those of one model; it is no promise of seconds.

    Args:
        records: What was run so far.
    """

    def __init__(self, records: Iterable[RunRecord]) -> None:
        self._alike: dict[tuple[str, str, str, int], list[float]] = {}
        self._rates: dict[str | None, list[float]] = {}
        for record in records:
            seconds = record.seconds / len(record.seeds)
            self._alike.setdefault(_kind(record.experiment), []).append(seconds)
            work = record.experiment.epochs * graph_size(record.data)
            if work > 0:
                for key in (record.experiment.model, None):
                    self._rates.setdefault(key, []).append(seconds / work)

    def of(self, experiment: Experiment, size: int, seeds: int) -> float:
        """The cost of training some seeds on a graph of a size, see :func:`graph_size`."""
        alike = self._alike.get(_kind(experiment))
        if alike:
            return seeds * median(alike)
        rates = self._rates.get(experiment.model) or self._rates.get(None) or [1.0]
        return seeds * experiment.epochs * size * median(rates)


def graph_size(facts: dict[str, int]) -> int:
    """Nodes and edges together, from what a record or a dataset says of itself."""
    return int(facts.get("nodes", 0)) + int(facts.get("edges", 0))


def _kind(experiment: Experiment) -> tuple[str, str, str, int]:
    return (experiment.dataset, experiment.split, experiment.model, experiment.epochs)
