"""Advice as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np
from jinja2 import Environment
from matplotlib.figure import Figure

from drgcn.studies.advice import Advice
from drgcn.studies.figures import to_svg

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
    advice: Advice, path: Path, *, title: str, gates: Sequence[Sequence[float]] = ()
) -> Path:
    """Writes the page; returns its path.

    Args:
        advice: What it says.
        path: Where to write.
        title: Its heading.
        gates: Learnt vector of the first layer for each seed, to draw beside the variances.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    template = resources.files("drgcn.studies").joinpath("advice.html.jinja").read_text("utf-8")
    page = (
        Environment(autoescape=True)
        .from_string(template)
        .render(
            title=title,
            numbers=shown(advice),
            advice=advice,
            figure=to_svg(variance_figure(advice, gates)),
            seeds=len(gates),
        )
    )
    path.write_text(page, encoding="utf-8")
    return path


def variance_figure(advice: Advice, gates: Sequence[Sequence[float]] = ()) -> Figure:
    """Variance of every dimension, sorted, on a log scale; below it the learnt gates."""
    figure = Figure(figsize=(9, 3.2 if not gates else 5.6), layout="constrained")
    axes = figure.subplots(2 if gates else 1, 1, squeeze=False, sharex=True)[:, 0]
    variance = np.array(advice.variance)
    order = np.argsort(-variance, kind="stable")
    place = np.arange(1, len(order) + 1)
    varies = variance[order] > 0
    axes[0].plot(place[varies], variance[order][varies], ".", ms=4, color="#0072B2")
    axes[0].set_yscale("log")
    axes[0].set_ylabel("variance")
    if gates:
        for s in gates:
            axes[1].plot(place, np.array(s)[order], ".", ms=3, alpha=0.6)
        axes[1].set_ylim(-0.02, 1.02)
        axes[1].set_ylabel("learnt s, first layer")
    axes[-1].set_xlabel("feature dimension, loudest first; constant ones are left out")
    for one in axes:
        one.grid(alpha=0.25)
    return figure
