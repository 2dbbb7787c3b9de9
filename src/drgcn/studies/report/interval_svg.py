"""Intervals as small pictures in the rows of a table, all on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from drgcn.studies.comparison import Gain

_WIDTH, _HEIGHT, _EDGE = 150.0, 20.0, 6.0
# Of many rows most decide the scale: what lies outside is drawn at the edge, as an arrow.
_MANY, _SHARE = 12, 0.8


def interval_pictures(intervals: Sequence[Gain | None]) -> list[str]:
    """One SVG for each interval, zero in the middle; empty where there is none."""
    known = [one for one in intervals if one is not None and math.isfinite(one.low)]
    ends = [max(abs(one.low), abs(one.high)) for one in known]
    reach = float(np.quantile(ends, _SHARE if len(ends) > _MANY else 1.0)) if ends else 1.0
    return [_picture(one, reach or 1.0) if one in known else "" for one in intervals]


def _picture(one: Gain | None, reach: float) -> str:
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
