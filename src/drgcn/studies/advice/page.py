"""Advice as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from statistics import mean

from jinja2 import Environment

from drgcn._io import write_whole
from drgcn.studies.advice.advice import Advice
from drgcn.studies.advice.learnt_gates import LearntGates, damping, order_of
from drgcn.studies.comparison import k_words
from drgcn.studies.report.figures import k_figure, to_svg, variance_figure
from drgcn.studies.report.measurements import share_words

LABELS = {
    "rows": "rows",
    "features": "features",
    "constant": "constant features",
    "spread": "spread of variances",
    "loudest": "largest over median variance",
    "k_std": "K of 1/std",
    "k_range_2": "least K, gates within a factor of 2",
    "k_range_4": "least K, gates within a factor of 4",
    "k_disc": "K of weights by class share",
    "saturation_risk": "gate entries stuck before training",
}


def shown(advice: Advice) -> list[tuple[str, str]]:
    """Label and value of every number."""
    return [(words, number(getattr(advice, name))) for name, words in LABELS.items()]


def number(value: float | None) -> str:
    """A number as a reader wants it."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"


def write_page(
    advice: Advice, path: Path, *, title: str, learnt: Sequence[LearntGates] = ()
) -> Path:
    """Writes the page; returns its path.

    Args:
        advice: What it says.
        path: Where to write.
        title: Its heading.
        learnt: Gates of some seeds, to draw beside the variances and against epochs.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    template = (resources.files(__package__) / "advice.html.jinja").read_text("utf-8")
    page = (
        Environment(autoescape=True)
        .from_string(template)
        .render(
            title=title,
            numbers=shown(advice),
            advice=advice,
            variances=to_svg(variance_figure(advice.variance, learnt)),
            layers=_layers(learnt),
            curves=to_svg(k_figure(learnt)) if learnt else "",
            damping=damping_words(advice.variance, learnt) if learnt else "",
            seeds=len(learnt),
        )
    )
    write_whole(path, page)
    return path


def damping_words(variance: Sequence[float], learnt: Sequence[LearntGates]) -> str:
    """Whether loud dimensions got smaller gates, in one sentence that goes by the numbers."""
    found = damping(variance, learnt)
    if not found:
        return "The learnt gates are constant: no dimension is damped more than another."
    low, high = min(found), max(found)
    numbers = (
        f"rank correlation of variance and s {mean(found):+.2f} on average over seeds, from "
        f"{low:+.2f} to {high:+.2f}"
    )
    order = order_of(found, sum(v > 0 for v in variance))
    if order == "amplified":
        return f"In every seed louder dimensions got larger gates, not smaller ones ({numbers})."
    if order == "damped":
        return f"In every seed louder dimensions got smaller gates: Dr damped them ({numbers})."
    return f"There is no clear order of loud dimensions and gates beyond chance ({numbers})."


def _layers(learnt: Sequence[LearntGates]) -> list[tuple[str, str, str, str]]:
    """Per layer: its number, mean K, its range over seeds, mean share of stuck entries."""
    rows = []
    for layer in range(len(learnt[0].k) if learnt else 0):
        known = [k for one in learnt if (k := one.k[layer]) is not None]
        stuck = mean(one.saturation[layer] for one in learnt)
        rows.append(
            (
                str(layer + 1),
                k_words([mean(known) if known else None]),
                f"{k_words([min(known)])} to {k_words([max(known)])}" if known else "-",
                share_words([stuck]),
            )
        )
    return rows
