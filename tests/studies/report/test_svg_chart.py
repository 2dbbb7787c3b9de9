"""Charts are whole XML, and put values where they belong."""

import re
from xml.etree import ElementTree

import pytest

from drgcn.stats import Interval
from drgcn.studies.report.comparisons import row_charts
from drgcn.studies.report.svg import HEIGHT, WIDTH, Axis, Chart, interval_pictures
from drgcn.studies.report.tables import gate_groups


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 100, [0, 20, 40, 60, 80, 100]),
        (86.72, 88.3, [87.0, 87.5, 88.0]),
        (-14, 5, [-10, -5, 0, 5]),
        (0.0001, 0.0009, [0.0002, 0.0004, 0.0006, 0.0008]),
    ],
)
def test_ticks_are_round(low, high, ticks):
    assert Axis(low, high, "").ticks == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(1, 800, [1, 10, 100]), (1, 50, [1, 3, 10, 30]), (1, 10, [1, 3, 10]), (1, 5, [1, 2, 5])],
)
def test_ticks_of_factors_are_round(low, high, ticks):
    assert Axis(low, high, "", log=True).ticks == pytest.approx(ticks)


def test_equal_factors_take_equal_room():
    axis = Axis(1, 100, "", log=True)
    assert [axis.share(v) for v in (1, 10, 100)] == pytest.approx([0, 0.5, 1])
    assert Axis(-1, 3, "").share(0) == pytest.approx(0.25)


def test_axes_have_room_for_all_values_even_one():
    for values in ([3.0], [0.0, 0.0], [-2.0, 5.0, float("nan")], []):
        axis = Axis.around(values, "")
        assert axis.low < axis.high
        assert all(axis.low < v < axis.high for v in values if v == v)
        assert axis.ticks


def test_larger_values_lie_further_right_and_up():
    chart = Chart(Axis(0, 10, "x"), Axis(0, 10, "y"), "a < b & c")
    for value in (1, 5, 9):
        chart.dot(value, value, "dr", "<words>")
    root = ElementTree.fromstring(chart.svg())
    dots = [(float(d.get("cx")), float(d.get("cy"))) for d in root.iter("circle")]
    assert [x for x, _ in dots] == sorted(x for x, _ in dots)
    assert [y for _, y in dots] == sorted((y for _, y in dots), reverse=True)
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in dots)
    assert root.get("aria-label") == "a < b & c"
    assert next(root.iter("title")).text == "<words>"


def test_a_comparison_has_seeds_and_two_curves(make_record):
    records = [make_record([0.8, 0.82, 0.9], reweight=gate) for gate in (None, "dr", "static")]
    (rows,) = gate_groups(records)
    seeds, accuracy, loss = (ElementTree.fromstring(svg) for svg in row_charts(rows))
    assert len(list(seeds.iter("circle"))) == 9
    for curves in (accuracy, loss):
        kinds = [path.get("class") for path in curves.iter("path")]
        assert [kind for kind in kinds if "line" in kind] == [
            "line plain",
            "line dr",
            "line static",
        ]
        assert sum("band" in kind for kind in kinds) == 3
    heights = [float(y) for y in re.findall(r" ([\d.]+)", _path(loss, "line plain"))]
    assert heights[0] < heights[-1]  # the loss falls, and SVG counts from the top


def _path(root, kind):
    return next(path.get("d") for path in root.iter("path") if path.get("class") == kind)


def test_intervals_share_a_scale_and_zero_is_in_the_middle():
    up, down, unsure = Interval(1, 0.5, 1.5), Interval(-2, -2.5, -1.5), Interval(0, -1, 1)
    pictures = interval_pictures([up, None, down, unsure])
    assert pictures[1] == ""
    means = [float(re.search(r'cx="([\d.]+)"', p)[1]) for p in pictures if p]
    assert means[2] == 75
    assert means[0] - 75 == pytest.approx((75 - means[1]) / 2, abs=0.1)


def test_among_many_one_far_out_is_an_arrow_and_hides_no_other():
    intervals = [Interval(0.1 * i, 0.1 * i - 0.2, 0.1 * i + 0.2) for i in range(-10, 11)]
    pictures = interval_pictures([*intervals, Interval(500, 400, 600)])
    assert "circle" not in pictures[-1]
    places = [float(re.search(r'cx="([\d.]+)"', p)[1]) for p in pictures if "circle" in p]
    assert len(set(places)) >= 18
