"""What training looked like: every seed, and curves of validation accuracy and training loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from drgcn.studies.report.svg_chart import Axis, Chart
from drgcn.studies.report.tables import GATES, Row

#: How pictures and their colours name a gate.
GATE_NAMES: Final[Mapping[str | None, str]] = {
    **{None: "plain", "dr": "Dr", "static": "static", "constant": "constant"}
}
_CLASSES: Final = {None: "plain", "dr": "dr", "static": "static", "constant": "constant"}
_CURVES: Final = {
    "curve_val_accuracy": ("validation {} %", 100.0),
    "curve_train_loss": ("training loss", 1.0),
}


@dataclass(frozen=True)
class _Curve:
    """One row's curve: its mean over seeds, and the band of all but the outer tenths."""

    kind: str
    epochs: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


def row_charts(rows: Mapping[str | None, Row]) -> list[str]:
    """Three pictures of rows that differ in their gate alone; two if no curve was recorded."""
    shown = {gate: rows[gate] for gate in GATES if gate in rows}
    curves = [_chart(shown, name) for name in ("curve_val_accuracy", "curve_train_loss")]
    return [_seeds(shown), *filter(None, curves)]


def _metric(rows: Mapping[str | None, Row]) -> str:
    return str(next(iter(rows.values()))[0].data.get("metric") or "accuracy")


def _seeds(rows: Mapping[str | None, Row]) -> str:
    """A dot for every seed, and a line at their mean."""
    values = {g: [100 * r.test_accuracy for r in seeds.values()] for g, (_, seeds) in rows.items()}
    names = [GATE_NAMES[gate] for gate in values]
    chart = Chart(
        Axis(-0.5, len(names) - 0.4, ""),
        Axis.around([v for each in values.values() for v in each], ""),
        f"test {_metric(rows)} %, one dot per seed",
    )
    for place, (gate, points) in enumerate(values.items()):
        kind = _CLASSES[gate]
        for shift, value in zip(np.linspace(-0.18, 0.18, len(points)), points, strict=True):
            chart.dot(place + float(shift), value, kind)
        mean = float(np.mean(points))
        chart.bar((place - 0.3, place + 0.3), (mean, mean), f"line {kind}")
        chart.words(place + 0.28, mean, f"{mean:.1f}")
    return chart.svg(names)


def _chart(rows: Mapping[str | None, Row], name: str) -> str:
    words, factor = _CURVES[name]
    curves = _curves(rows, name, factor)
    if not curves:
        return ""
    epochs = [epoch for curve in curves for epoch in curve.epochs]
    values = [v for c in curves for line in (c.mean, c.low, c.high) for v in line]
    chart = Chart(
        Axis(min(epochs), max(max(epochs), 1.5 * min(epochs)), "epoch", log=True),
        Axis.around(values, ""),
        words.format(_metric(rows)),
    )
    for curve in curves:
        chart.band(curve.epochs, curve.low, curve.high, curve.kind)
    for curve in curves:
        chart.line(curve.epochs, curve.mean, curve.kind)
    return chart.svg()


def _curves(rows: Mapping[str | None, Row], name: str, factor: float) -> list[_Curve]:
    """The curves of a picture, as far as every seed was trained: a mean over those that are left
    would be of other seeds at every epoch."""
    found = []
    for gate, (record, seeds) in rows.items():
        length = min(len(getattr(result, name)) for result in seeds.values())
        values = factor * np.array([getattr(r, name)[:length] for r in seeds.values()], float)
        if values.size and np.isfinite(values).all():
            low, high = np.quantile(values, [0.1, 0.9], axis=0)
            epochs = [float(epoch) for epoch in record.curve_epochs[:length]]
            lines = [line.tolist() for line in (values.mean(0), low, high)]
            found.append(_Curve(_CLASSES[gate], epochs, *lines))
    return found
