"""Small charts as SVG text, drawn in the colours of the page they stand on.

A page sets colours by class (``dr``, ``plain`` and so on), so that one picture serves light and
dark. Sizes fit a phone; a wider page sets several beside each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from drgcn.stats import Interval

WIDTH, HEIGHT = 340.0, 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 10.0, 24.0, 38.0


@dataclass(frozen=True)
class Axis:
    """The range of one direction of a chart.

    Attributes:
        low: Its least value.
        high: Its greatest.
        words: What it measures.
        log: Whether equal factors take equal room.
    """

    low: float
    high: float
    words: str
    log: bool = False

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
        """How far along the axis a value lies, 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        """Round values, three to seven of them."""
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
        step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= rough * 0.999)
        first = math.ceil(self.low / step)
        return [round(step * n, 10) for n in range(first, math.floor(self.high / step) + 1)]


class Chart:
    """Axes, and what is drawn on them.

    Args:
        x: The axis across.
        y: The axis up.
        title: What stands above.
    """

    def __init__(self, x: Axis, y: Axis, title: str) -> None:
        self.x, self.y, self.title = x, y, title
        self._parts: list[str] = []

    def line(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
        """A line through points, from the left."""
        self._parts.append(f'<path class="line {kind}" d="M{self._points(xs, ys)}"/>')

    def band(
        self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], kind: str
    ) -> None:
        """The area between two lines."""
        there, back = self._points(xs, low), self._points(xs[::-1], high[::-1])
        self._parts.append(f'<path class="band {kind}" d="M{there}L{back}Z"/>')

    def dot(self, x: float, y: float, kind: str, words: str = "", radius: float = 3) -> None:
        """A point, with words for whoever rests on it."""
        title = f"<title>{escape(words)}</title>" if words else ""
        self._parts.append(
            f'<circle class="dot {kind}" cx="{self._across(x):.1f}" cy="{self._up(y):.1f}" '
            f'r="{radius:g}">{title}</circle>'
        )

    def bar(self, x: tuple[float, float], y: tuple[float, float], kind: str) -> None:
        """A straight line between two places."""
        self._parts.append(f'<path class="{kind}" d="M{self._points(x, y)}"/>')

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies in the picture, from its upper left corner."""
        return self._across(x), self._up(y)

    def words(self, x: float, y: float, words: str, anchor: str = "start") -> None:
        """Words beside a place."""
        shift = {"start": 6, "middle": 0, "end": -6}[anchor]
        self._parts.append(
            f'<text x="{self._across(x) + shift:.1f}" y="{self._up(y) + 3.5:.1f}" '
            f'text-anchor="{anchor}">{escape(words)}</text>'
        )

    def svg(self, x_names: Sequence[str] | None = None) -> str:
        """The whole picture.

        Args:
            x_names: What to write below the whole numbers 0, 1, 2 across, instead of values.
        """
        parts = self._grid(x_names)
        parts += self._parts
        parts.append(f'<text class="title" x="{_LEFT:g}" y="14">{escape(self.title)}</text>')
        return (
            f'<svg class="chart" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" '
            f'aria-label="{escape(self.title)}">{"".join(parts)}</svg>'
        )

    def _grid(self, x_names: Sequence[str] | None) -> list[str]:
        left, right, top, bottom = _LEFT, WIDTH - _RIGHT, _TOP, HEIGHT - _BOTTOM
        parts = []
        for value in self.y.ticks:
            at = self._up(value)
            parts.append(f'<path class="grid" d="M{left:g} {at:.1f}H{right:g}"/>')
            parts.append(f'<text x="{left - 5:g}" y="{at + 3.5:.1f}" text-anchor="end">')
            parts.append(f"{value:g}</text>")
        places = range(len(x_names)) if x_names else self.x.ticks
        for value in places:
            at, name = self._across(value), x_names[int(value)] if x_names else f"{value:g}"
            if not x_names:
                parts.append(f'<path class="grid" d="M{at:.1f} {top:g}V{bottom:g}"/>')
            parts.append(f'<text x="{at:.1f}" y="{bottom + 14:g}" text-anchor="middle">')
            parts.append(f"{escape(name)}</text>")
        parts.append(
            f'<text x="{(left + right) / 2:g}" y="{HEIGHT - 6:g}" text-anchor="middle">'
            f"{escape(self.x.words)}</text>"
        )
        return parts

    def _across(self, value: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * self.x.share(value)

    def _up(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * self.y.share(value)

    def _points(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        return "L".join(
            f"{self._across(x):.1f} {self._up(y):.1f}" for x, y in zip(xs, ys, strict=True)
        )


_WIDTH, _HEIGHT, _EDGE = 150.0, 20.0, 6.0
# Of many rows most decide the scale: what lies outside is drawn at the edge, as an arrow.
_MANY, _SHARE = 12, 0.8


def interval_pictures(intervals: Sequence[Interval | None]) -> list[str]:
    """One SVG for each interval, zero in the middle; empty where there is none."""
    known = [one for one in intervals if one is not None and math.isfinite(one.low)]
    ends = [max(abs(one.low), abs(one.high)) for one in known]
    reach = float(np.quantile(ends, _SHARE if len(ends) > _MANY else 1.0)) if ends else 1.0
    return [_picture(one, reach or 1.0) if one in known else "" for one in intervals]


def _picture(one: Interval | None, reach: float) -> str:
    assert one is not None
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
