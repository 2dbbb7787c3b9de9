"""What Dr gained against what its first gate did to the variances, setting by setting."""

from __future__ import annotations

import math
from collections.abc import Sequence

from drgcn.studies.gain.cluster_correlation import FEWEST, correlate
from drgcn.studies.report.gate_tests import GateTest
from drgcn.studies.report.svg_chart import WIDTH, Axis, Chart

_NAMED = 6
_LETTER, _LINE = 6.0, 11.0  # room of a letter and of a line


def with_k(tests: Sequence[GateTest]) -> list[GateTest]:
    """Comparisons whose K of the first layer is defined."""
    return [test for test in tests if test.k and not math.isnan(test.k[0])]


def gain_chart(points: Sequence[GateTest]) -> str:
    """Gain with its interval over K, each point in the colour of what is sure of it."""
    gains = [point.test.gain for point in points]
    across = Axis.around([*(point.k[0] for point in points), 1.0], "K of the first layer")
    chart = Chart(
        across,
        Axis.around([0.0, *(gain.mean for gain in gains)], ""),
        "Dr - plain, points of accuracy",
    )
    chart.bar((across.low, across.high), (0, 0), "zero")
    chart.bar((1, 1), (chart.y.low, chart.y.high), "zero")
    for point, gain in zip(points, gains, strict=True):
        kind = point.sign
        ends = max(gain.low, chart.y.low), min(gain.high, chart.y.high)
        chart.bar((point.k[0], point.k[0]), ends, f"whisker {kind}")
    for point, gain in zip(points, gains, strict=True):
        look = point.sign + (" hollow" if point.synthetic else "")
        where = f"{point.dataset}, {point.split}, {point.model}"
        chart.dot(point.k[0], gain.mean, look, f"{where}: K {point.k[0]:.2f}, {gain}", radius=3.5)
    _name_farthest(chart, points)
    return chart.svg()


def correlation_words(points: Sequence[GateTest]) -> str:
    """How gain and K go together over datasets of the world, each counting once."""
    real = [point for point in points if not point.synthetic]
    k, gains = [p.k[0] for p in real], [p.test.gain.mean for p in real]
    names = [point.name for point in real]
    if len(set(names)) < FEWEST or len(set(k)) < 2 or len(set(gains)) < 2:
        return f"Fewer than {FEWEST} datasets that were not made up: nothing to correlate."
    found = correlate(k, gains, names)
    return (
        f"Over {found.observations} settings of {found.clusters} datasets that were not made up, "
        f"the rank correlation of K and gain is {found.spearman:+.2f} "
        f"[{found.low:+.2f}, {found.high:+.2f}] (95 % interval by drawing datasets with "
        f"replacement; p = {found.p:.2f} by exchanging them). Each dataset counts once. If small "
        f"K helped, it would be below zero."
    )


def _name_farthest(chart: Chart, points: Sequence[GateTest]) -> None:
    """Names beside the farthest points, on the side where fewer points and names are hidden."""
    taken = [chart.place(point.k[0], point.test.gain.mean) for point in points]
    for point in _farthest(points):
        x, y = chart.place(point.k[0], point.test.gain.mean)
        width = _LETTER * len(point.name)
        hidden = {}
        for side, left in (("start", x + 4), ("end", x - 4 - width)):
            inside = [left < at < left + width and abs(up - y) < _LINE for at, up in taken]
            hidden[side] = sum(inside) + 100 * (not 0 < left < WIDTH - width)
        side = min(hidden, key=lambda each: hidden[each])
        chart.words(point.k[0], point.test.gain.mean, point.name, side)
        left = x + 4 if side == "start" else x - 4 - width
        taken += [(left + share * width, y) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]


def _farthest(points: Sequence[GateTest]) -> list[GateTest]:
    """The settings with the greatest gains and losses, one for each dataset."""
    by_size = sorted(points, key=lambda point: abs(point.test.gain.mean))
    farthest = {point.name: point for point in by_size}.values()
    return sorted(farthest, key=by_size.index)[-_NAMED:]
