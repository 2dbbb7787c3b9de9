"""The study of gains as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable

from drgcn.studies.comparison import k_words
from drgcn.studies.gain.cell import Cell
from drgcn.studies.gain.study import GainStudy

_COLUMNS: dict[str, Callable[[Cell], str]] = {
    "dataset": lambda c: c.title,
    "split": lambda c: c.split,
    "scaling": lambda c: c.normalize,
    "Dr - plain [95 %]": lambda c: str(c.over_plain),
    "Dr - static [95 %]": lambda c: str(c.over_static or "-"),
    "learnt K": lambda c: k_words([c.k_1, c.k_2]),
    "stuck %": lambda c: percent(c.saturation),
    "stuck at the start %": lambda c: percent(c.numbers.saturation_risk),
    "K*_2": lambda c: short(c.numbers.k_range_2),
    "K*_4": lambda c: short(c.numbers.k_range_4),
    "K_disc": lambda c: short(c.numbers.k_disc),
    "K_std": lambda c: short(c.numbers.k_std),
    "spread": lambda c: short(c.numbers.spread),
}
_SIGNS = {-1: "below 0", 0: "-", 1: "above 0"}


def cell_table(study: GainStudy) -> str:
    """One line per setting: what Dr gained, and what might have told so."""
    return _table(
        list(_COLUMNS), [[column(cell) for column in _COLUMNS.values()] for cell in study.cells]
    )


def correlation_table(study: GainStudy) -> str:
    """One line per predictor: its correlation with the gain, and how much hangs on one dataset."""
    head = ["the gain of Dr against", "if small K helped", "Spearman [95 %]", "p", "p (Holm)"]
    head += ["one dataset left out", "Pearson", "one dataset left out", "settings", "datasets"]
    rows = []
    for found in study.findings:
        c = found.correlation
        name, other = c.weightiest, c.pearson_weightiest
        rows.append(
            [
                found.predictor.words,
                _SIGNS[found.predictor.expected],
                f"{c.spearman:+.2f} [{c.low:+.2f}, {c.high:+.2f}]",
                f"{c.p:.2f}",
                f"{found.p_holm:.2f}",
                f"{min(c.without.values()):+.2f} to {max(c.without.values()):+.2f}; "
                f"most by {name}, {c.without[name]:+.2f}",
                f"{c.pearson:+.2f}",
                f"most by {other}, {c.pearson_without[other]:+.2f}",
                str(c.observations),
                str(c.clusters),
            ]
        )
    return _table(head, rows)


def percent(share: float | None) -> str:
    """A share as a whole percentage; a dash where it is unknown."""
    return "-" if share is None else f"{100 * share:.0f}"


def short(value: float | None) -> str:
    """Two digits after the point, or one that counts where these would be zero."""
    if value is None:
        return "-"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.0g}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
