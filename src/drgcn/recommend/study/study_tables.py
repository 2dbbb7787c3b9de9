"""The study as tables: rows of words, and Markdown out of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drgcn.recommend.study.gate_comparison import GateComparison, corrected

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
    """What was compared, in a line."""
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
    """What the comparison says of Dr, in one sentence."""
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
