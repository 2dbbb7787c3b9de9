"""Comparisons of gates as blocks of a report: rows, verdict, and charts of training and gain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from drgcn.reporting.charts import SMALL, Axis, Chart
from drgcn.reporting.tables import Table
from drgcn.stats import FEWEST, Correlation, Decision, correlate
from drgcn.studies.comparison import (
    GATES,
    Guess,
    Pair,
    decide_rows,
    gate_place,
    k_words,
    summarize,
    verdict,
)
from drgcn.studies.experiment import unusual
from drgcn.studies.report.gate_tests import GateTest, words
from drgcn.studies.report.measurements import mean_saturation, share_words
from drgcn.studies.report.tables import (
    NO_BETTER,
    Row,
    above_guess,
    gain_words,
    one_build,
    published_cell,
    setting_name,
)

# Classes of the style sheet by gate, and those for other gates.
_CLASSES: Final = {None: "plain", "dr": "dr", "static": "static", "constant": "constant"}
_OTHERS: Final = ("one", "two", "three", "four", "five", "six")
_CURVES: Final = {
    "curve_val_accuracy": ("validation {} %", 100.0),
    "curve_train_loss": ("training loss", 1.0),
}
_NAMED = 6
_GAIN_SIZE = (1000.0, 360.0)
_LETTER, _LINE = 6.0, 11.0  # room of a letter and of a line


def gate_name(gate: str | None) -> str:
    """Return the name of a gate in pictures."""
    return {None: "plain", "dr": "Dr"}.get(gate, str(gate))


def _class(gate: str | None, shown: Iterable[str | None]) -> str:
    """Return the class of a gate in the style sheet, beside others that are shown."""
    others = [other for other in shown if other not in _CLASSES]
    return _CLASSES.get(gate) or _OTHERS[others.index(gate) % len(_OTHERS)]


@dataclass(frozen=True)
class ComparisonBlock:
    """Rows that differ in their gate alone, ready for a page.

    Attributes:
        title: Dataset, split and model.
        short: What came out, in a few words.
        facts: What the data is, and what departs from the usual training.
        table: The rows.
        verdict: Sentences on what follows, or why nothing does; none unless plain, Dr and both
            controls are there, or nothing was learnt.
        charts: Pictures.
        provenance: Where the numbers come from.
    """

    title: str
    short: str
    facts: str
    table: Table
    verdict: tuple[str, ...]
    charts: tuple[str, ...]
    provenance: str


def comparison_block(
    gates: Mapping[str | None, Row], decided: Mapping[Pair, Decision], number: int
) -> ComparisonBlock:
    """The block of some rows.

    Args:
        gates: Rows by their gate.
        decided: The comparisons between them.
        number: Tells its table from those of other blocks.
    """
    shown = {gate: gates[gate] for gate in sorted(gates, key=gate_place)}
    record = next(iter(shown.values()))[0]
    data = record.data
    counts = "{nodes:,} nodes, {edges:,} edges, {features:,} features, {classes} classes"
    parts = "{train:,} / {val:,} / {test:,} nodes to train, validate, test."
    departs = unusual(record.experiment)
    guess = Guess.of_data(data)
    return ComparisonBlock(
        title=setting_name(record),
        short=_short(shown),
        facts=f"{counts}; {parts}".format_map(data)
        + (f" A guess: {guess.words}." if guess else "")
        + (f" Departing from the usual training: {departs}." if departs else ""),
        table=_table(shown, f"comparison-{number}", str(data.get("metric") or "accuracy")),
        verdict=_verdict(shown, decided, guess),
        charts=tuple(row_charts(shown)),
        provenance=f"Data {data['content_hash']}; {_build_words(shown)}.",
    )


def _verdict(
    shown: Mapping[str | None, Row], decided: Mapping[Pair, Decision], guess: Guess | None
) -> tuple[str, ...]:
    """The verdict of the command that trains the rows; where all settings of a report, judged
    together, come to another one, also that."""
    if guess is not None and not any(map(above_guess, shown.values())):
        return (guess.unbeaten,)
    if not set(GATES) <= shown.keys():
        return ()
    if others := [gate_name(gate) for gate in GATES if not one_build(shown[gate], shown["dr"])]:
        return tuple(words("undecided", others=others))
    own = decide_rows({gate: seeds for gate, (_, seeds) in shown.items()})
    among_all = decided["dr", None]
    differs = own["dr", None].sign != among_all.sign
    return tuple(words("verdict", own=verdict(own), over_plain=among_all if differs else None))


def _build_words(shown: Mapping[str | None, Row]) -> str:
    """Describe the build of the rows, or each one where they are of several."""
    builds: dict[str, list[str]] = {}
    for gate, (record, _) in shown.items():
        where = record.environment
        build = (
            f"{where['device']}, torch {where['torch']}, PyG {where['torch_geometric']}, drgcn "
            f"{where['drgcn']} ({where['source']})"
        )
        builds.setdefault(build, []).append(gate_name(gate))
    if len(builds) == 1:
        return next(iter(builds))
    return "; ".join(f"{', '.join(names)}: {build}" for build, names in builds.items())


def _short(shown: Mapping[str | None, Row]) -> str:
    if {None, "dr"} <= shown.keys() and len(shown["dr"][1].keys() & shown[None][1].keys()) > 1:
        return f"Dr - plain {gain_words(shown['dr'], shown[None])}"
    return ", ".join(f"{summarize(seeds).mean:.1f}" for _, seeds in shown.values()) + " %"


def _table(shown: Mapping[str | None, Row], name: str, metric: str) -> Table:
    plain = shown.get(None)
    heads = ["model", f"test {metric} %", "published", "gain over plain [95 %]", "K per layer"]
    rows = tuple(_cells(row, plain) for row in shown.values())
    heads += ["stuck per layer", "best epoch", "seeds"]
    return Table(heads, rows, name, name, left=1)


def _cells(row: Row, plain: Row | None) -> tuple[str, ...]:
    record, seeds = row
    summary = summarize(seeds)
    return (
        record.experiment.label,
        summary.words(2) + ("" if above_guess(row) else NO_BETTER),
        published_cell(record),
        "" if plain is None or plain is row or summary.seeds < 2 else gain_words(row, plain),
        k_words(summary.k),
        share_words(mean_saturation(seeds)),
        str(round(summary.best_epoch)),
        str(summary.seeds),
    )


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
    shown = {gate: rows[gate] for gate in sorted(rows, key=gate_place)}
    curves = [_chart(shown, name) for name in ("curve_val_accuracy", "curve_train_loss")]
    return [_seeds(shown), *filter(None, curves)]


def _metric(rows: Mapping[str | None, Row]) -> str:
    return str(next(iter(rows.values()))[0].data.get("metric") or "accuracy")


def _seeds(rows: Mapping[str | None, Row]) -> str:
    """A dot for every seed, and a line at their mean."""
    values = {g: [100 * r.test_accuracy for r in seeds.values()] for g, (_, seeds) in rows.items()}
    names = [gate_name(gate) for gate in values]
    chart = Chart(
        Axis(-0.5, len(names) - 0.4, ""),
        Axis.around([v for each in values.values() for v in each], ""),
        f"test {_metric(rows)} %, one dot per seed",
        x_names=names,
        alt=f"test {_metric(rows)} %, one dot per seed: "
        + ", ".join(
            f"{name} {np.mean(points):.1f}"
            for name, points in zip(names, values.values(), strict=True)
        ),
    )
    for place, (gate, points) in enumerate(values.items()):
        kind = _class(gate, values)
        for shift, value in zip(np.linspace(-0.18, 0.18, len(points)), points, strict=True):
            chart.dot(place + float(shift), value, kind)
        mean = float(np.mean(points))
        chart.segment((place - 0.3, place + 0.3), (mean, mean), f"line {kind}")
        chart.words(place + 0.28, mean, f"{mean:.1f}")
    return chart.svg()


def _chart(rows: Mapping[str | None, Row], name: str) -> str:
    title, factor = _CURVES[name]
    curves = _curves(rows, name, factor)
    if not curves:
        return ""
    epochs = [epoch for curve in curves for epoch in curve.epochs]
    values = [v for c in curves for line in (c.mean, c.low, c.high) for v in line]
    chart = Chart(
        Axis(min(epochs), max(max(epochs), 1.5 * min(epochs)), "epoch", log=True),
        Axis.around(values, ""),
        title.format(_metric(rows)),
        alt=f"{title.format(_metric(rows))} by epoch; in the last epoch "
        + ", ".join(f"{curve.kind} {curve.mean[-1]:.3g}" for curve in curves),
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
            found.append(_Curve(_class(gate, rows), epochs, *lines))
    return found


def with_k(tests: Sequence[GateTest]) -> list[GateTest]:
    """Comparisons whose K of the first layer is defined."""
    return [test for test in tests if test.k and not math.isnan(test.k[0])]


def gain_chart(points: Sequence[GateTest], *, phone: bool = False) -> str:
    """Draw gain with its interval over K, each point in the colour of what is sure of it."""
    gains = [point.test.gain for point in points]
    across = Axis.around([*(point.k[0] for point in points), 1.0], "K of the first layer")
    chart = Chart(
        across,
        Axis.around([0.0, *(found.mean for found in gains)], ""),
        "Dr - plain, points of accuracy",
        size=SMALL if phone else _GAIN_SIZE,
        alt=f"Gain of Dr over plain against K of the first layer in {len(points)} settings",
    )
    chart.segment((across.low, across.high), (0, 0), "zero")
    chart.segment((1, 1), (chart.y.low, chart.y.high), "zero")
    for point, found in zip(points, gains, strict=True):
        kind = point.sign
        ends = max(found.low, chart.y.low), min(found.high, chart.y.high)
        chart.segment((point.k[0], point.k[0]), ends, f"whisker {kind}")
    for point, found in zip(points, gains, strict=True):
        look = point.sign + (" hollow" if point.sign == "unsure" else "")
        told = f"{point.setting}: K {point.k[0]:.2f}, {found}"
        draw = chart.diamond if point.synthetic else chart.dot
        draw(point.k[0], found.mean, look, told)
    _name_farthest(chart, points)
    return chart.svg()


def correlation(points: Sequence[GateTest]) -> Correlation | None:
    """Correlate gain and K over real datasets, each counting once; ``None`` if they are few."""
    real = [point for point in points if not point.synthetic]
    k, gains = [p.k[0] for p in real], [p.test.gain.mean for p in real]
    names = [point.name for point in real]
    if len(set(names)) < FEWEST or len(set(k)) < 2 or len(set(gains)) < 2:
        return None
    return correlate(k, gains, names)


def _name_farthest(chart: Chart, points: Sequence[GateTest]) -> None:
    """Names beside the farthest points, on the side where fewer points and names are hidden."""
    taken = [chart.place(point.k[0], point.test.gain.mean) for point in points]
    for point in _farthest(points):
        x, y = chart.place(point.k[0], point.test.gain.mean)
        width = _LETTER * len(point.name)
        hidden = {}
        for side, left in (("start", x + 4), ("end", x - 4 - width)):
            inside = [left < at < left + width and abs(up - y) < _LINE for at, up in taken]
            hidden[side] = sum(inside) + 100 * (not 0 < left < chart.width - width)
        side = min(hidden, key=lambda each: hidden[each])
        chart.words(point.k[0], point.test.gain.mean, point.name, side)
        left = x + 4 if side == "start" else x - 4 - width
        taken += [(left + share * width, y) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]


def _farthest(points: Sequence[GateTest]) -> list[GateTest]:
    """The settings with the greatest gains and losses, one for each dataset."""
    by_size = sorted(points, key=lambda point: abs(point.test.gain.mean))
    farthest = {point.name: point for point in by_size}.values()
    return sorted(farthest, key=by_size.index)[-_NAMED:]
