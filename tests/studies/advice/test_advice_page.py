import re
from xml.etree import ElementTree

import numpy as np
import pytest

from drgcn import advise
from drgcn.studies.advice.learnt_gates import LearntGates
from drgcn.studies.advice.page import damping_words, k_chart, variance_charts, write_page


@pytest.fixture
def advice(tiny):
    return advise(tiny)


RISING = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


def gates(s, seed=0, k=(0.5, 1.0)):
    by_epoch = [[1.0, 1.0], [0.7, None], list(k)]
    return LearntGates(seed, 9, list(k), [0.25, 0.004], list(s), [0, 1, 10], by_epoch)


def places(svg, kind):
    """Coordinates of the corners of the shapes of a class."""
    found = [
        path for path in ElementTree.fromstring(svg).iter("path") if path.get("class") == kind
    ]
    pairs = [re.findall(r"([\d.]+) ([\d.]+)", path.get("d")) for path in found]
    return [np.array([[float(x), float(y)] for x, y in each]) for each in pairs]


def test_without_training_the_page_says_how_to_see_the_gates(advice, tmp_path):
    page = write_page(advice, tmp_path / "a" / "plain.html", title="<planted>").read_text()
    assert "&lt;planted&gt;" in page
    assert advice.paragraph.split(".")[0] in page
    assert page.count("<svg") == 1
    assert "<code>--train</code>" in page
    assert "<h2>K while" not in page


def test_with_training_it_has_gates_layers_and_curves(advice, tmp_path):
    learnt = [gates([0.5] * 64), gates(np.linspace(0, 1, 64), 1, k=(0.7, None))]
    page = write_page(advice, tmp_path / "s.html", title="t", learnt=learnt).read_text()
    assert page.count("<svg") == 3
    assert "--train" not in page
    assert "2 seeds" in page
    rows = re.findall(r"<tr>(.*?)</tr>", page)[-2:]
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in rows]
    assert cells[0] == ["1", "0.60", "0.50 to 0.70", "25 %"]
    assert cells[1] == ["2", "1.00", "1.00 to 1.00", "&lt;1 %"]
    assert 'name="viewport"' in page
    assert "src=" not in page
    assert "{{" not in page


def expect_heights(drawn, values):
    """Heights of points are a falling linear function of values: SVG counts from the top."""
    slope, start = np.polyfit(values, drawn, 1)
    assert slope < 0
    np.testing.assert_allclose(drawn, np.multiply(values, slope) + start, atol=0.15)


def test_gates_are_drawn_below_the_variances_of_the_same_dimensions():
    variance = [2.0, 0.0, 8.0, 4.0]
    learnt = [gates([0.2, 0.9, 0.8, 0.4]), gates([0.4, 0.9, 0.6, 0.4])]
    above, below = variance_charts(variance, learnt)
    (loud,), (mean,) = places(above, "points one large"), places(below, "points two large")
    np.testing.assert_array_equal(loud[:, 0], mean[:, 0])  # the constant dimension is nowhere
    expect_heights(loud[:, 1], [3, 2, 1])  # powers of two
    expect_heights(mean[:, 1], [0.7, 0.4, 0.3])
    ends = np.concatenate(places(below, "range two"))[:, 1]
    expect_heights(ends, [0.6, 0.8, 0.4, 0.4, 0.2, 0.4])
    assert len(variance_charts(variance)) == 1


def test_many_dimensions_have_a_running_median():
    generator = np.random.default_rng(0)
    variance, s = generator.uniform(1, 2, 400), generator.uniform(0, 1, 400)
    _, below = variance_charts(variance.tolist(), [gates(s)])
    ordered = s[np.argsort(-variance)]
    (found,) = places(below, "line ink")
    expect_heights(found[[0, 200], 1], [np.median(ordered[:6]), np.median(ordered[195:206])])


def test_k_is_drawn_against_epochs_with_gaps_where_it_is_undefined():
    svg = k_chart([gates([0.5]), gates([0.5], 1, k=(0.7, 2.0))])
    (one,), (two,) = places(svg, "line one"), places(svg, "line two")
    expect_heights(np.concatenate([one, two])[:, 1], [1, 0.7, 0.6, 1, 1.5])
    np.testing.assert_array_equal(two[:, 0], one[[0, 2], 0])
    assert len(places(svg, "line one thin")) == 2
    assert len(places(svg, "bar ink")) == 2  # kept epochs


def test_k_that_is_nowhere_defined_is_no_error():
    nowhere = LearntGates(0, 1, [None], [0.0], [0.5], [0, 1], [[None], [None]])
    assert places(k_chart([nowhere]), "line one") == []


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([RISING, RISING], "got smaller gates: Dr damped them"),
        ([RISING[::-1], RISING[::-1]], "got larger gates, not smaller"),
        ([RISING, RISING[::-1]], "no clear order"),
        ([[0.3, 0.1, 0.4, 0.2, 0.5, 0.6]], "no clear order"),
        ([[0.5] * 6], "gates are constant"),
    ],
)
def test_damping_is_put_in_words(rows, words):
    variance = [9.0, 7.0, 5.0, 4.0, 2.0, 1.0]
    assert words in damping_words(variance, [gates(s) for s in rows])
