"""Charts as SVG text: lines, bands, points and bars in the colours of the page.

The style sheet of ``base.html.jinja`` sets colours by class (``dr``, ``plain``, :data:`SERIES`),
so that one picture serves light and dark. Small charts fit a phone, and stand beside each other on
a wider page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import quantiles
from typing import Protocol

SMALL = (340.0, 230.0)
WIDE = 700.0  # width of a chart that stands alone
#: Classes of series without a meaning of their own, in order.
SERIES = ("one", "two", "three", "four", "five", "six")

_RIGHT, _TOP = 10.0, 24.0
_LETTER = 6.5  # room of a letter
_TICKS, _WORDS = 22.0, 16.0  # room of the ticks below, and of the name of the axis
_LONGEST_NAME = 44


@dataclass(frozen=True)
class Axis:
    """The range of one direction of a chart.

    Attributes:
        low: Its least value.
        high: Its greatest.
        words: Name of the quantity.
        log: Equal factors take equal room.
        from_zero: On a logarithmic axis, values are placed by log(1 + value), so that 0 is on it.
        whole: Ticks are whole numbers.
    """

    low: float
    high: float
    words: str
    log: bool = False
    from_zero: bool = False
    whole: bool = False

    @classmethod
    def around(cls, values: Iterable[float], words: str, *, log: bool = False) -> Axis:
        """An axis with a little room around all finite values."""
        known = [v for v in values if math.isfinite(v) and (v > 0 or not log)] or [1.0]
        low, high = min(known), max(known)
        if log:
            return cls(low / 1.08, high * 1.08, words, log=True)
        room = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
        return cls(low - room, high + room, words)

    def share(self, value: float) -> float:
        """Return the share of the axis below a value, 0 to 1."""
        if self.from_zero:
            low, high = math.log1p(self.low), math.log1p(self.high)
            return (math.log1p(value) - low) / (high - low)
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        """Round values, about three to seven of them."""
        if self.from_zero:
            return [0.0, *(10.0**p for p in range(math.floor(math.log10(self.high)) + 1))]
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for steps in ((1,), (1, 3), (1, 2, 5)):
                found = [s * 10.0**p for p in powers for s in steps]
                found = [value for value in found if self.low <= value <= self.high]
                if len(found) > 2:
                    break
            return found
        rough = (self.high - self.low) / 6
        power = 10.0 ** math.floor(math.log10(rough))
        choices = [1, 2, 5, 10] if self.whole else [1, 2, 2.5, 5, 10]
        step = next(s * power for s in choices if s * power >= rough * 0.999)
        if self.whole:
            step = max(step, 1.0)
        first = math.ceil(self.low / step)
        return [round(step * n, 10) for n in range(first, math.floor(self.high / step) + 1)]


class Chart:
    """Axes, and shapes drawn on them.

    Args:
        x: The axis across.
        y: The axis up.
        title: Text above.
        size: Width and height. (default: small enough for a phone)
        x_names: Text below the whole numbers 0, 1, 2 across, in place of values.
        y_names: Text left of the whole numbers 0, 1, 2 on the axis up, in place of values.
        alt: The picture in words, for who cannot see it. (default: its title)
    """

    def __init__(
        self,
        x: Axis,
        y: Axis,
        title: str,
        *,
        size: tuple[float, float] = SMALL,
        x_names: Sequence[str] | None = None,
        y_names: Sequence[str] | None = None,
        alt: str = "",
    ) -> None:
        self.x, self.y, self.title, self.alt = x, y, title, alt or title
        self.x_names, self.y_names = x_names, y_names
        self.width, self.height = size
        names = [f"{value:g}" for value in y.ticks] if y_names is None else y_names
        # Wide charts stand below each other: the same room for any values keeps them aligned.
        least = 56.0 if self.width >= WIDE else 44.0
        self._left = max(least, 10 + _LETTER * max(map(len, names), default=0))
        self._bottom = self.height - _TICKS - (_WORDS if x.words else 0.0)
        self._keys: list[tuple[str, str]] = []
        self._parts: list[str] = []

    def line(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
        """Draw a line through points."""
        if len(xs):
            self._parts.append(f'<path class="line {kind}" d="M{self._points(xs, ys)}"/>')

    def band(
        self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], kind: str
    ) -> None:
        """Fill the area between two lines."""
        if len(xs):
            there, back = self._points(xs, low), self._points(xs[::-1], high[::-1])
            self._parts.append(f'<path class="band {kind}" d="M{there}L{back}Z"/>')

    def dot(self, x: float, y: float, kind: str, words: str = "", radius: float = 3) -> None:
        """Draw a point, with text for a reader who rests on it."""
        title = f"<title>{escape(words)}</title>" if words else ""
        self._parts.append(
            f'<circle class="dot {kind}" cx="{self._across(x):.1f}" cy="{self._up(y):.1f}" '
            f'r="{radius:g}">{title}</circle>'
        )

    def diamond(self, x: float, y: float, kind: str, words: str = "") -> None:
        """Draw a square that stands on a corner, with text for a reader who rests on it."""
        title = f"<title>{escape(words)}</title>" if words else ""
        self._parts.append(
            f'<path class="dot {kind}" d="M{self._across(x):.1f} {self._up(y) - 4.5:.1f}'
            f'l4.5 4.5l-4.5 4.5l-4.5 -4.5Z">{title}</path>'
        )

    def points(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
        """Draw many points as one shape, which takes a fraction of the room of single dots."""
        marks = "".join(
            f"M{self._across(x):.1f} {self._up(y):.1f}h0" for x, y in zip(xs, ys, strict=True)
        )
        if marks:
            self._parts.append(f'<path class="points {kind}" d="{marks}"/>')

    def segment(self, x: tuple[float, float], y: tuple[float, float], kind: str) -> None:
        """Draw a straight line between two places."""
        self._parts.append(f'<path class="{kind}" d="M{self._points(x, y)}"/>')

    def bar(self, x: tuple[float, float], y: tuple[float, float], kind: str) -> None:
        """Fill a rectangle between two corners."""
        (left, right), (low, high) = map(self._across, x), map(self._up, y)
        outline = f"M{left:.1f} {low:.1f}H{right:.1f}V{high:.1f}H{left:.1f}Z"
        self._parts.append(f'<path class="bar {kind}" d="{outline}"/>')

    def triangle(self, x: float, kind: str) -> None:
        """Mark a place at the foot of the chart."""
        at, foot = self._across(x), self._bottom - 2
        self._parts.append(f'<path class="bar {kind}" d="M{at - 5:.1f} {foot:g}h10l-5 -10z"/>')

    def words(self, x: float, y: float, words: str, anchor: str = "start") -> None:
        """Write beside a place."""
        shift = {"start": 6, "middle": 0, "end": -6}[anchor]
        self._parts.append(_text(self._across(x) + shift, self._up(y) + 3.5, words, anchor))

    def key(self, words: str, kind: str) -> None:
        """Add a colour and its meaning to the line above the chart, on the right."""
        self._keys.append((words, kind))

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return the place of a point in the picture, from its upper left corner."""
        return self._across(x), self._up(y)

    def svg(self) -> str:
        """Return the whole picture."""
        parts = [*self._grid(), *self._parts, *self._legend()]
        parts.append(_text(self._left, 14, self.title, "start", "title"))
        return _whole_svg("chart", self.width, self.height, self.alt, parts)

    def _grid(self) -> list[str]:
        left, right, top, bottom = self._left, self.width - _RIGHT, _TOP, self._bottom
        parts = []
        for at, name in self._ticks(self.y, self.y_names, self._up):
            if not self.y_names:
                parts.append(f'<path class="grid" d="M{left:g} {at:.1f}H{right:g}"/>')
            parts.append(_text(left - 5, at + 3.5, name, "end"))
        for at, name in self._ticks(self.x, self.x_names, self._across):
            if not self.x_names:
                parts.append(f'<path class="grid" d="M{at:.1f} {top:g}V{bottom:g}"/>')
            parts.append(_text(at, bottom + 14, name, "middle"))
        return [*parts, _text((left + right) / 2, self.height - 6, self.x.words, "middle")]

    def _legend(self) -> list[str]:
        parts, end = [], self.width - _RIGHT
        for words, kind in reversed(self._keys):
            parts.append(_text(end, 14, words, "end"))
            end -= _LETTER * len(words) + 8
            parts.append(f'<circle class="dot {kind}" cx="{end:g}" cy="10" r="4"/>')
            end -= 14
        return parts

    @staticmethod
    def _ticks(
        axis: Axis, names: Sequence[str] | None, place: Callable[[float], float]
    ) -> list[tuple[float, str]]:
        if names is not None:
            return [(place(number), name) for number, name in enumerate(names)]
        return [(place(value), f"{value:g}") for value in axis.ticks]

    def _across(self, value: float) -> float:
        return self._left + (self.width - self._left - _RIGHT) * self.x.share(value)

    def _up(self, value: float) -> float:
        return self._bottom - (self._bottom - _TOP) * self.y.share(value)

    def _points(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        return "L".join(
            f"{self._across(x):.1f} {self._up(y):.1f}" for x, y in zip(xs, ys, strict=True)
        )


@dataclass(frozen=True)
class Bars:
    """One series of bars.

    Attributes:
        values: Length of each bar.
        kind: Class that colours them; a tuple for one each.
        words: Meaning of the colour; empty for none.
    """

    values: Sequence[float]
    kind: str | Sequence[str]
    words: str = ""

    def kind_of(self, place: int) -> str:
        """Return the class of a bar."""
        return self.kind if isinstance(self.kind, str) else self.kind[place]


def row_bars(
    names: Sequence[object], series: Sequence[Bars], words: str, *, labelled: bool = False
) -> str:
    """Draw bars across, one group for each name from the top.

    Args:
        names: Name of each group; long ones are cut.
        series: Bars of every group.
        words: Name of the quantity.
        labelled: Values are written beside the bars.
    """
    short = [_short(name) for name in names]
    high = max((value for one in series for value in one.values), default=0.0) or 1.0
    chart = Chart(
        Axis(0.0, high * (1.08 if labelled else 1.02), ""),
        Axis(len(names) - 0.5, -0.5, ""),
        words,
        size=(WIDE, _TOP + _TICKS + len(names) * (6 + 11.0 * len(series))),
        y_names=short,
        alt=_bars_in_words(words, short, series),
    )
    thick = 0.8 / len(series)
    for number, one in enumerate(series):
        for place, value in enumerate(one.values):
            top = place - 0.4 + number * thick
            chart.bar((0.0, value), (top, top + 0.92 * thick), one.kind_of(place))
            if labelled:
                chart.words(value, top + thick / 2, f"{value:.1f}")
        if one.words:
            chart.key(one.words, one.kind_of(0))
    return chart.svg()


def column_bars(names: Sequence[str], series: Sequence[Bars], title: str, words: str) -> str:
    """Draw bars upwards, of several series on top of each other.

    Args:
        names: Name of each column.
        series: Bars of every column, from the foot.
        title: Name of the quantity.
        words: Meaning of the names.
    """
    sums = [sum(column) for column in zip(*(one.values for one in series), strict=True)]
    chart = Chart(
        Axis(-0.6, len(names) - 0.4, words),
        Axis(0.0, 1.05 * max(sums, default=0.0) or 1.0, ""),
        title,
        size=(WIDE, SMALL[1]),
        x_names=names,
        alt=_bars_in_words(title, names, series),
    )
    feet = [0.0] * len(names)
    for one in series:
        for place, value in enumerate(one.values):
            if value:
                ends = (feet[place], feet[place] + value)
                chart.bar((place - 0.4, place + 0.4), ends, one.kind_of(place))
                feet[place] += value
        if one.words:
            chart.key(one.words, one.kind_of(0))
    return chart.svg()


def _bars_in_words(title: str, names: Sequence[str], series: Sequence[Bars]) -> str:
    """Title and values of all bars; those of many are summed up by the greatest."""
    parts = []
    for one in series:
        values = list(zip(names, one.values, strict=True))
        shown = values if len(values) <= _MANY else [max(values, key=lambda each: each[1])]
        words = ", ".join(f"{name} {value:.4g}" for name, value in shown)
        lead = ": ".join(filter(None, (one.words, "greatest" if len(values) > _MANY else "")))
        parts.append(f"{lead}: {words}" if lead else words)
    return f"{title}. {'; '.join(parts)}"


def _short(name: object) -> str:
    words = " ".join(str(name).split())
    return words if len(words) <= _LONGEST_NAME else f"{words[:_LONGEST_NAME]}..."


class Interval(Protocol):
    """A mean with the ends of its interval."""

    @property
    def mean(self) -> float:
        """The mean."""

    @property
    def low(self) -> float:
        """Lower end."""

    @property
    def high(self) -> float:
        """Upper end."""


_WIDTH, _HEIGHT, _EDGE = 150.0, 20.0, 6.0
# Of many rows four fifths decide the scale: what lies outside is drawn at the edge, as an arrow.
_MANY = 12


def interval_pictures(intervals: Sequence[Interval | None]) -> list[str]:
    """Return an SVG for each interval, zero in the middle; empty where there is none."""
    known = [one for one in intervals if one is not None and math.isfinite(one.low)]
    reach = _reach(known)
    return [
        _picture(one, reach) if one is not None and math.isfinite(one.low) else ""
        for one in intervals
    ]


def _reach(known: Sequence[Interval]) -> float:
    """Return how far from zero the scale of some intervals goes."""
    ends = [max(abs(one.low), abs(one.high)) for one in known]
    if len(ends) > _MANY:
        return quantiles(ends, n=5, method="inclusive")[-1] or 1.0
    return max(ends, default=1.0) or 1.0


def _picture(one: Interval, reach: float) -> str:
    middle, scale = _WIDTH / 2, (_WIDTH / 2 - _EDGE) / reach

    def place(value: float) -> float:
        return min(max(middle + scale * value, _EDGE), _WIDTH - _EDGE)

    y = _HEIGHT / 2
    low, mean, high = place(one.low), place(one.mean), place(one.high)
    parts = [
        f'<path class="zero" d="M{middle:g} 0V{_HEIGHT:g}"/>',
        f'<path class="whisker" d="M{low:.1f} {y:g}H{high:.1f}"/>',
    ]
    if abs(one.mean) > reach:
        side = 1 if one.mean > 0 else -1
        tip = middle + side * (_WIDTH / 2 - 1)
        parts.append(
            f'<path class="mean" d="M{tip:.1f} {y:g}l{-9 * side} -5v10z"/>'  # further out
        )
    else:
        parts.append(f'<circle class="mean" cx="{mean:.1f}" cy="{y:g}" r="4"/>')
    return (
        f'<svg class="interval" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" width="{_WIDTH:g}" '
        f'height="{_HEIGHT:g}" role="img" aria-label="{one}">{"".join(parts)}</svg>'
    )


@dataclass(frozen=True)
class Mark:
    """An interval of a row of :func:`interval_rows`.

    Attributes:
        interval: The interval.
        kind: ``up``, ``down`` or ``unsure``, which colour it; those that are unsure are hollow.
        words: Text for a reader who rests on it.
    """

    interval: Interval
    kind: str
    words: str


@dataclass(frozen=True)
class IntervalRow:
    """A row of :func:`interval_rows`.

    Attributes:
        name: Text on its left, or above it.
        panels: Marks of every panel, or a word in their place.
    """

    name: str
    panels: Sequence[Sequence[Mark] | str]

    @property
    def height(self) -> float:
        """Room of its marks, one below the other."""
        return 10.0 + 7.0 * max([1, *(len(p) for p in self.panels if not isinstance(p, str))])


_PANELS, _PHONE = 1000.0, 360.0  # width of panels on a desktop and on a phone
_GUTTER, _VALUE, _GAP = 336.0, 46.0, 14.0  # room of names, of values, and between panels
_HEAD = 34.0  # room above the first row


def interval_rows(
    rows: Sequence[IntervalRow], panels: Sequence[str], alt: str, *, phone: bool = False
) -> str:
    """Draw intervals in rows, in panels beside each other that share one scale around zero.

    What lies outside the scale of most is an arrow at the edge. The mean of a row that has one
    mark in its first panel is written beside it.

    Args:
        rows: The rows, from the top.
        panels: Name of each panel.
        alt: The picture in words.
        phone: Names stand above their row. (default: on its left)
    """
    layout = _Layout.of(rows, panels, phone)
    foot = _HEAD + sum(layout.above + row.height for row in rows)
    parts, top = _panel_axes(layout, panels, foot), _HEAD
    for row in rows:
        parts += _row_parts(layout, row, top)
        top += layout.above + row.height
        parts.append(f'<path class="grid" d="M0 {top:.1f}H{layout.width:g}"/>')
    return _whole_svg("chart", layout.width, foot + 22, alt, parts)


@dataclass(frozen=True)
class _Layout:
    """Room of the panels of :func:`interval_rows`, for a phone with names above their rows."""

    phone: bool
    width: float
    left: float
    above: float
    centres: tuple[float, ...]
    half: float
    reach: float

    @classmethod
    def of(cls, rows: Sequence[IntervalRow], panels: Sequence[str], phone: bool) -> _Layout:
        drawn = [panel for row in rows for panel in row.panels if not isinstance(panel, str)]
        known = [m.interval for panel in drawn for m in panel if math.isfinite(m.interval.low)]
        width, left, right = (_PHONE, 8.0, 8.0) if phone else (_PANELS, _GUTTER, 8 + _VALUE)
        each = (width - left - right - _GAP * (len(panels) - 1)) / len(panels)
        centres = tuple(left + each / 2 + place * (each + _GAP) for place in range(len(panels)))
        above = 13.0 if phone else 0.0
        return cls(phone, width, left, above, centres, each / 2 - 4, 1.04 * _reach(known))

    def across(self, centre: float, value: float) -> float:
        """Return the place of a value; at the edge, if it lies outside."""
        return centre + self.half * min(max(value / self.reach, -1.0), 1.0)


def _panel_axes(layout: _Layout, panels: Sequence[str], foot: float) -> list[str]:
    parts = []
    ticks = Axis(-layout.reach, layout.reach, "").ticks
    if layout.half < 100 and len(ticks) > 3:
        ticks = ticks[ticks.index(0) % 2 :: 2]
    for centre, name in zip(layout.centres, panels, strict=True):
        parts.append(_text(centre, 14, name, "middle", "title"))
        for value in ticks:
            x = layout.across(centre, value)
            parts.append(f'<path class="grid" d="M{x:.1f} {_HEAD:g}V{foot:g}"/>')
            parts += [_text(x, y, f"{value:g}", "middle", "soft") for y in (29, foot + 14)]
        parts.append(f'<path class="zero" d="M{centre:.1f} {_HEAD:g}V{foot:g}"/>')
    return parts


def _row_parts(layout: _Layout, row: IntervalRow, top: float) -> list[str]:
    middle = top + layout.above + row.height / 2
    if layout.phone:
        up = top + 11
        parts = [_cover(0, top + 1, layout.width, layout.above)]
        parts.append(_text(8, up, _without_middle(row.name, 48), "start"))
    else:
        up = middle + 3.5
        parts = [_text(layout.left - 10, up, _without_middle(row.name, 58), "end")]
    first = row.panels[0]
    if not isinstance(first, str) and len(first) == 1:
        parts.append(_text(layout.width - 8, up, f"{first[0].interval.mean:+.2f}", "end"))
    for centre, panel in zip(layout.centres, row.panels, strict=True):
        if isinstance(panel, str):
            parts.append(_cover(centre - 30, middle - 6, 60, 12))
            parts.append(_text(centre, middle + 3.5, panel, "middle", "soft"))
            continue
        for place, mark in enumerate(panel):
            parts += _mark(layout, mark, centre, middle + 7.0 * (place - (len(panel) - 1) / 2))
    return parts


def _cover(left: float, top: float, width: float, height: float) -> str:
    """Hide the lines of the axes behind words."""
    return f'<path class="cover" d="M{left:.1f} {top:.1f}h{width:g}v{height:g}h{-width:g}z"/>'


def _without_middle(name: str, longest: int) -> str:
    """A name whose ends tell it apart, cut to some letters."""
    half = (longest - 3) // 2
    return name if len(name) <= longest else f"{name[:half]}...{name[-half:]}"


def _mark(layout: _Layout, mark: Mark, centre: float, y: float) -> list[str]:
    """Whisker and dot, or an arrow where the mean lies outside."""
    one, parts = mark.interval, []
    if math.isfinite(one.low):
        low, high = layout.across(centre, one.low), layout.across(centre, one.high)
        parts.append(f'<path class="whisker {mark.kind}" d="M{low:.1f} {y:.1f}H{high:.1f}"/>')
    look = f'class="dot {mark.kind}{" hollow" * (mark.kind == "unsure")}"'
    title = f"<title>{escape(mark.words)}</title>"
    if abs(one.mean) > layout.reach:
        side = math.copysign(1, one.mean)
        arrow = f"M{centre + side * (layout.half + 4):.1f} {y:.1f}l{-8 * side:g} -4.5v9z"
        return [*parts, f'<path {look} d="{arrow}">{title}</path>']
    at = f'cx="{layout.across(centre, one.mean):.1f}" cy="{y:.1f}" r="3.4"'
    return [*parts, f"<circle {look} {at}>{title}</circle>"]


def count_bars(names: Sequence[str], counts: Sequence[Mapping[str, int]], alt: str) -> str:
    """Draw how counts divide: a whole bar for each name, its parts with their numbers.

    Args:
        names: Name of each bar, which stands above it.
        counts: Counts of each bar by the class that colours them, from the left.
        alt: The picture in words.
    """
    parts, least = [], 26.0  # a small part has room for its number
    for row, (name, each) in enumerate(zip(names, counts, strict=True)):
        top, left = 4 + 48.0 * row, 0.0
        parts.append(_text(0, top + 13, name, "start"))
        for kind, count in each.items():
            wide = least + (_PHONE - least * len(each)) * count / (sum(each.values()) or 1)
            outline = f"M{left:.1f} {top + 19:g}h{wide - 2:.1f}v20h{2 - wide:.1f}z"
            parts.append(f'<path class="bar {kind}" d="{outline}"/>')
            parts.append(_text(left + wide / 2 - 1, top + 33, str(count), "middle", "inside"))
            left += wide
    return _whole_svg("chart bare", _PHONE, 48.0 * len(names), alt, parts)


def _text(x: float, y: float, words: str, anchor: str, kind: str = "") -> str:
    look = f' class="{kind}"' if kind else ""
    return f'<text{look} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _whole_svg(kind: str, width: float, height: float, alt: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(alt)}">{"".join(parts)}</svg>'
    )
