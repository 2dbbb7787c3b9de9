"""Charts are whole XML, and put values where they belong."""

import re
from xml.etree import ElementTree

import pytest

from drgcn.reporting.charts import Axis, Bars, Chart, column_bars, interval_pictures, row_bars
from drgcn.stats import Interval


def shapes(svg, kind):
    """Numbers in the outlines of a class of shapes."""
    found = [
        path for path in ElementTree.fromstring(svg).iter("path") if path.get("class") == kind
    ]
    return [[float(number) for number in re.findall(r"[\d.]+", path.get("d"))] for path in found]


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
    assert all(0 < x < chart.width and 0 < y < chart.height for x, y in dots)
    assert root.get("aria-label") == "a < b & c"
    assert next(root.iter("title")).text == "<words>"


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


def test_whole_axes_have_whole_ticks_and_some_axes_have_a_zero():
    assert Axis(0.5, 13.5, "", whole=True).ticks == [5, 10]
    assert Axis(0.5, 3.5, "", whole=True).ticks == [1, 2, 3]
    axis = Axis(0, 240, "", log=True, from_zero=True)
    assert axis.ticks == [0, 1, 10, 100]
    assert (axis.share(0), axis.share(240)) == (0, 1)
    assert axis.share(10) - axis.share(1) == pytest.approx(axis.share(120) - axis.share(21), 1e-9)


def test_bars_across_are_as_long_as_their_values_and_lie_from_the_top():
    svg = row_bars(["a<b", "x" * 60], [Bars([2, 4], "one", "own"), Bars([1, 0], "six")], "%")
    own, other = shapes(svg, "bar one"), shapes(svg, "bar six")
    lengths = [right - left for left, _, right, *_ in (*own, *other)]
    assert lengths == pytest.approx([2 * lengths[2], 4 * lengths[2], lengths[2], 0], abs=0.2)
    assert own[0][1] < other[0][1] < own[1][1] < other[1][1]
    texts = [text.text for text in ElementTree.fromstring(svg).iter("text")]
    assert texts[:2] == ["a<b", "x" * 44 + "..."]
    assert "own" in texts
    assert "4.0" in row_bars(["a"], [Bars([4], "one")], "%", labelled=True)


def test_bars_upwards_stand_on_each_other():
    svg = column_bars(["0", "1"], [Bars([2, 0], "one"), Bars([2, 3], "two")], "pairs", "like")
    ((_, foot, _, top, _),) = shapes(svg, "bar one")
    (_, upon, _, high, _), (_, alone, _, _, _) = shapes(svg, "bar two")
    assert upon == top
    assert alone == foot
    assert top - high == pytest.approx(foot - top, abs=0.2)


def test_charts_of_nothing_are_whole():
    for svg in (
        row_bars([], [Bars([], "one")], "%"),
        column_bars(["0"], [Bars([0], "one")], "", ""),
    ):
        ElementTree.fromstring(svg)
