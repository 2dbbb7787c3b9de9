"""Compare gates over paired seeds, and tables of the comparison."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy import stats

from drgcn.recommend.retrieval.evaluation import Estimate
from drgcn.recommend.study.records import StudyRecord, unpacked
from drgcn.recommend.study.settings import GATES


@dataclass(frozen=True)
class MeanInterval:
    """A mean with its 95 % t interval and the two-sided p of its being zero.

    Attributes:
        mean: The mean.
        low: Lower end; minus infinity for one value.
        high: Upper end.
        p: Of the t-test; not a number for one value.
        count: Number of values.
    """

    mean: float
    low: float
    high: float
    p: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> MeanInterval:
        """Of some values.

        Example:
            >>> round(MeanInterval.of([1.0, 2.0, 3.0]).low, 3)
            -0.484
        """
        count, mean = len(values), float(np.mean(values))
        if count < 2:
            return cls(mean, -math.inf, math.inf, math.nan, count)
        error = float(np.std(values, ddof=1)) / math.sqrt(count)
        if error <= 1e-12 * max(abs(mean), 1e-12):  # all are the same, and t is undefined
            # What a test by signs says: all signs alike, one way or the other.
            return cls(mean, mean, mean, 1.0 if mean == 0 else 2.0 ** (1 - count), count)
        reach = float(stats.t.ppf(0.975, count - 1)) * error
        p = 2 * float(stats.t.sf(abs(mean) / error, count - 1))
        return cls(mean, mean - reach, mean + reach, p, count)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for the family they form (Holm, 1979); what is no number stays so.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    known = [place for place, p in enumerate(p_values) if not math.isnan(p)]
    corrected, highest = [math.nan] * len(p_values), 0.0
    for turn, place in enumerate(sorted(known, key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(known) - turn) * p_values[place]))
        corrected[place] = highest
    return corrected


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


_LEAST_USERS = 1


@dataclass(frozen=True)
class Rows:
    """A table in words.

    Attributes:
        header: Names of the columns.
        rows: The cells.
    """

    header: list[str]
    rows: list[list[str]]

    def transposed(self) -> Rows:
        """Rows as columns, for narrow terminals."""
        header, *rows = [list(column) for column in zip(self.header, *self.rows, strict=True)]
        return Rows(header, rows)

    def markdown(self) -> str:
        """As Markdown; the first column to the left, the others to the right."""
        lines = ["|".join(["", *self.header, ""]), "|---|" + "---:|" * (len(self.header) - 1)]
        return "\n".join([*lines, *("|".join(["", *row, ""]) for row in self.rows)])


def title(found: GateComparison) -> str:
    """Title of a comparison: data, model, split and protocol."""
    one = found.any
    s = one.settings
    loss = "" if s.loss == "softmax" else f", {s.loss.upper()}"
    return f"{one.data['name']}, {s.model}{loss}, {one.data['split']}, protocol {s.protocol}"


def recall_rows(found: GateComparison) -> Rows:
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
    return Rows(header, rows)


def difference_rows(found: Sequence[GateComparison]) -> Rows:
    """Gates against each other over all comparisons given: one family for Holm's correction."""
    named = [(one, difference) for one in found for difference in one.differences()]
    family = corrected([difference for _, difference in named])
    rows = []
    for (one, _), difference in zip(named, family, strict=True):
        seeds, users = difference.over_seeds, difference.over_users
        rows.append(
            [
                f"{one.any.data['name']} {one.any.settings.model}",
                f"{difference.gate} − {difference.against}",
                str(seeds.count),
                _interval(seeds.mean, seeds.low, seeds.high),
                _p(seeds.p),
                _p(difference.p_holm),
                "-" if users is None else _interval(users.mean, users.low, users.high),
            ]
        )
    header = ["data", "gates", "seeds", "points, 95 % over seeds", "p", "p (Holm)"]
    return Rows([*header, "points, 95 % over users"], rows)


def verdict(found: GateComparison) -> str:
    """One sentence on Dr against the other gates."""
    family = corrected(found.differences())
    own = {one.against: one for one in family if one.gate == "dr"}
    if "none" not in own or own["none"].over_seeds.count < 2:
        return "One seed, or no run without a gate beside Dr: no comparison."
    sure = {name: one for name, one in own.items() if one.p_holm < 0.05}
    words = "; ".join(
        f"against {name} {_interval(o.over_seeds.mean, o.over_seeds.low, o.over_seeds.high)}"
        for name, o in own.items()
    )
    if not sure:
        return f"Dr makes no sure difference to any other gate ({words})."
    up = [name for name, one in sure.items() if one.over_seeds.mean > 0]
    down = [name for name in sure if name not in up]
    parts = [f"above {', '.join(up)}"] if up else []
    parts += [f"below {', '.join(down)}"] if down else []
    return f"After correction Dr is surely {' and '.join(parts)} ({words})."


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
    if not values:
        return "-"
    if len(values) < 2:
        return f"{values[0]:.2f}"
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"


def _interval(mean: float, low: float, high: float) -> str:
    return f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]" if math.isfinite(low) else f"{mean:+.2f}"


def _p(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}" if value >= 0.001 else f"{value:.1g}"
