"""Gates that were run alike, compared seed by seed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from drgcn.recommend.retrieval.estimate import Estimate
from drgcn.recommend.study.paired_statistics import MeanInterval, holm
from drgcn.recommend.study.study_record import StudyRecord, unpacked
from drgcn.recommend.study.study_settings import GATES

#: Which gate is held against which: Dr against all others, and those against no gate.
PAIRS = (
    *(("dr", "none"), ("dr", "static"), ("dr", "constant")),
    *(("static", "none"), ("constant", "none")),
)


@dataclass(frozen=True)
class GateDifference:
    """One gate against another, in points of recall.

    Attributes:
        gate: The one.
        against: The other.
        over_seeds: Mean difference, paired by seed, with its t interval: what other seeds would
            bring. This is what p-values are of.
        over_users: The same models, with each user's difference averaged over seeds and an
            interval over users: what other users would bring. ``None`` if values were not kept.
        p_holm: P-value corrected for the family of all differences in a table.
    """

    gate: str
    against: str
    over_seeds: MeanInterval
    over_users: Estimate | None
    p_holm: float = float("nan")


@dataclass(frozen=True, eq=False)
class GateComparison:
    """The records that agree in all but gate and seed.

    Attributes:
        records: By gate, then seed.
    """

    records: dict[str, dict[int, StudyRecord]]

    @property
    def any(self) -> StudyRecord:
        """One of them, for what they share."""
        return next(iter(next(iter(self.records.values())).values()))

    @property
    def gates(self) -> list[str]:
        """The gates on record, in the usual order."""
        return [gate for gate in GATES if gate in self.records]

    def values(self, gate: str, group: str = "all", n: int | None = None) -> list[float]:
        """Recall of every seed in percent."""
        found = self.records[gate]
        return [100 * found[seed].recall(n, group) for seed in sorted(found)]

    def differences(self, n: int | None = None, group: str = "all") -> list[GateDifference]:
        """All pairs of :data:`PAIRS` that share a seed."""
        found = []
        for gate, against in PAIRS:
            one, other = self.records.get(gate, {}), self.records.get(against, {})
            if seeds := sorted(one.keys() & other.keys()):
                points = [
                    100 * (one[seed].recall(n, group) - other[seed].recall(n, group))
                    for seed in seeds
                ]
                users = None
                if group == "all" and n in (None, self.any.settings.n[0]):
                    users = _over_users([one[s] for s in seeds], [other[s] for s in seeds])
                found.append(GateDifference(gate, against, MeanInterval.of(points), users))
        return found


def comparisons(records: Iterable[StudyRecord]) -> list[GateComparison]:
    """Records sorted into those that can be compared, in the order of their first ones."""
    found: dict[str, dict[str, dict[int, StudyRecord]]] = {}
    for record in records:
        key = json.dumps([record.data["content_hash"], record.settings.group()], sort_keys=True)
        gates = found.setdefault(key, {})
        gates.setdefault(record.settings.gate, {})[record.settings.seed] = record
    return [GateComparison(gates) for gates in found.values()]


def corrected(family: Sequence[GateDifference]) -> list[GateDifference]:
    """The same differences, their p-values corrected for all of them together."""
    values = holm([one.over_seeds.p for one in family])
    return [replace(one, p_holm=p) for one, p in zip(family, values, strict=True)]


def _over_users(one: list[StudyRecord], other: list[StudyRecord]) -> Estimate | None:
    if not all(record.user_recall for record in (*one, *other)):
        return None
    differences = [
        unpacked(a.user_recall) - unpacked(b.user_recall) for a, b in zip(one, other, strict=True)
    ]
    return Estimate.of(torch.from_numpy(100 * np.mean(differences, axis=0)))
