"""Compare gates over paired seeds, and tables of the comparison."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from drgcn.recommend.retrieval.evaluation import Estimate
from drgcn.recommend.study.settings import GATES, StudyRecord, unpacked
from drgcn.reporting.tables import Table
from drgcn.stats import Decision, Interval, Summary, decide

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
        decision: Mean difference, paired by seed, judged within the family of all that are shown
            together: what other seeds would bring. This is what p-values are of.
        over_users: The same models, with each user's difference averaged over seeds and an
            interval over users: what other users would bring. ``None`` if values were not kept.
    """

    gate: str
    against: str
    decision: Decision
    over_users: Estimate | None


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

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of :data:`PAIRS` that share a seed."""
        return [pair for pair in PAIRS if self._shared(*pair)]

    def differences(self, gate: str, against: str) -> list[float]:
        """Points of recall of one gate above another, for every seed that both have."""
        one, other = self.records[gate], self.records[against]
        return [
            100 * (one[seed].recall() - other[seed].recall())
            for seed in self._shared(gate, against)
        ]

    def over_users(self, gate: str, against: str) -> Estimate | None:
        """Points of recall of one gate above another, averaged over seeds and then over users;
        ``None`` if the values of users were not kept."""
        seeds = self._shared(gate, against)
        one = [self.records[gate][seed].user_recall for seed in seeds]
        other = [self.records[against][seed].user_recall for seed in seeds]
        if not all((*one, *other)):
            return None
        differences = [unpacked(a) - unpacked(b) for a, b in zip(one, other, strict=True)]
        return Estimate.of(torch.from_numpy(100 * np.mean(differences, axis=0)))

    def _shared(self, gate: str, against: str) -> list[int]:
        return sorted(self.records.get(gate, {}).keys() & self.records.get(against, {}).keys())


def comparisons(records: Iterable[StudyRecord]) -> list[GateComparison]:
    """Records sorted into those that can be compared, in the order of their first ones."""
    found: dict[str, dict[str, dict[int, StudyRecord]]] = {}
    for record in records:
        key = json.dumps([record.data["content_hash"], record.settings.group()], sort_keys=True)
        gates = found.setdefault(key, {})
        gates.setdefault(record.settings.gate, {})[record.settings.seed] = record
    return [GateComparison(gates) for gates in found.values()]


def decide_gates(found: Sequence[GateComparison]) -> list[list[GateDifference]]:
    """Judge the gates of comparisons that are shown together, as one family.

    Returns:
        For each comparison all pairs of :data:`PAIRS` that share a seed.
    """
    named = [(place, pair) for place, one in enumerate(found) for pair in one.pairs()]
    family = decide([found[place].differences(*pair) for place, pair in named])
    judged: list[list[GateDifference]] = [[] for _ in found]
    for (place, pair), decision in zip(named, family, strict=True):
        users = found[place].over_users(*pair)
        judged[place].append(GateDifference(*pair, decision, users))
    return judged


_LEAST_USERS = 1


def title(found: GateComparison) -> str:
    """Title of a comparison: data, model, split and protocol."""
    one = found.any
    s = one.settings
    loss = "" if s.loss == "softmax" else f", {s.loss.upper()}"
    aged = "" if s.half_life is None else f", half-life of clicks {s.half_life:g} days"
    return f"{one.data['name']}, {s.model}{loss}, {one.data['split']}, protocol {s.protocol}{aged}"


def recall_rows(found: GateComparison) -> Table:
    """Mean and deviation of every gate over seeds, in percent; popular and random lists beside."""
    one = found.any
    lengths = one.settings.n
    groups = [g for g in ("warm", "cold") if _users(found, g) >= _LEAST_USERS]
    if len(groups) == 1:  # then it is the same as all
        groups = []
    header = ["gate", "seeds", *(f"Recall@{n}" for n in lengths)]
    header += [f"NDCG@{lengths[0]}"]
    header += [f"{group} Recall@{lengths[0]} ({_users(found, group):,} users)" for group in groups]
    header += ["validation", "best epoch", "no plateau", "seconds"]
    rows = []
    for gate in found.gates:
        records = list(found.records[gate].values())
        ndcg = [100 * record.recall(measure="ndcg") for record in records]
        cells = [gate, str(len(records)), *(_spread(found.values(gate, n=n)) for n in lengths)]
        cells += [_spread(ndcg), *(_spread(found.values(gate, group)) for group in groups)]
        choices = [record.choice for record in records if record.choice is not None]
        cells += [_spread([100 * choice["best_recall"] for choice in choices])]
        clicks = one.data["parts"]["train"]
        shown = [c["best_step"] * one.settings.batch_size / clicks for c in choices]
        cells += [f"{np.mean(shown):.1f}" if shown else f"{one.settings.epochs_max:g} (fixed)"]
        cells += [str(sum(c["stopped"] == "limit" for c in choices)) if choices else "-"]
        cells += [f"{np.mean([sum(r.seconds.values()) for r in records]):.0f}"]
        rows.append(cells)
    for name, words in (("popularity", "popular items"), ("chance", "random items")):
        rows.append(_beside(found, name, words, groups, len(header)))
    return Table(header, rows, left=1)


def difference_rows(found: Sequence[GateComparison]) -> Table:
    """Gates against each other over all comparisons given, which are one family."""
    rows = []
    for one, family in zip(found, decide_gates(found), strict=True):
        for difference in family:
            test, users = difference.decision.test, difference.over_users
            rows.append(
                [
                    f"{one.any.data['name']} {one.any.settings.model}",
                    f"{difference.gate} − {difference.against}",
                    str(test.seeds),
                    str(test.gain),
                    _p(test.p),
                    _p(difference.decision.p_holm),
                    "-" if users is None else str(Interval(users.mean, users.low, users.high)),
                ]
            )
    header = ["data", "gates", "seeds", "points, 95 % over seeds", "p", "p (Holm)"]
    return Table([*header, "points, 95 % over users"], rows, left=1)


def verdict(differences: Sequence[GateDifference]) -> str:
    """Say what a comparison comes to for Dr, in one sentence.

    Args:
        differences: Those of one comparison, from :func:`decide_gates`.
    """
    own = {one.against: one.decision for one in differences if one.gate == "dr"}
    if "none" not in own or own["none"].test.seeds < 2:
        return "One seed, or no run without a gate beside Dr: no comparison."
    words = "; ".join(f"against {name} {one.test.gain}" for name, one in own.items())
    words += f"; {own['none'].correction}"
    up = [name for name, one in own.items() if one.sign == "up"]
    down = [name for name, one in own.items() if one.sign == "down"]
    parts = [f"above {', '.join(up)}"] if up else []
    parts += [f"below {', '.join(down)}"] if down else []
    if not parts:
        return f"Dr makes no sure difference to any other gate ({words})."
    return f"Dr is surely {' and '.join(parts)} ({words})."


def _users(found: GateComparison, group: str) -> int:
    report = found.any.test[str(found.any.settings.n[0])]
    return int(report["model"][group]["recall"]["users"])


def _beside(
    found: GateComparison, name: str, words: str, groups: Sequence[str], width: int
) -> list[str]:
    """The row of a list that needs no model."""

    def mean(n: int, group: str, measure: str) -> str:
        value = found.any.test[str(n)][name][group][measure]
        value = value["mean"] if isinstance(value, dict) else value
        return f"{100 * value:.2f}"

    lengths = found.any.settings.n
    cells = [words, "", *(mean(n, "all", "recall") for n in lengths)]
    cells += [mean(lengths[0], "all", "ndcg")]
    cells += [mean(lengths[0], group, "recall") for group in groups]
    return cells + [""] * (width - len(cells))


def _spread(values: Sequence[float]) -> str:
    return Summary.of(values).words(2) if values else "-"


def _p(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}" if value >= 0.001 else f"{value:.1g}"
