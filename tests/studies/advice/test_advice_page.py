import re

import numpy as np
import pytest

from drgcn import advise
from drgcn.studies.advice.learnt_gates import LearntGates
from drgcn.studies.advice.page import damping_words, write_page
from drgcn.studies.report.figures import k_figure, variance_figure


@pytest.fixture
def advice(tiny):
    return advise(tiny)


RISING = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


def gates(s, seed=0, k=(0.5, 1.0)):
    by_epoch = [[1.0, 1.0], [0.7, None], list(k)]
    return LearntGates(seed, 9, list(k), [0.25, 0.004], list(s), [0, 1, 10], by_epoch)


def points(axes, label):
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return line.get_xydata()


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
    assert page.count("<svg") == 2
    assert "--train" not in page
    assert "2 seeds" in page
    rows = re.findall(r"<tr>((?:<td>.*?</td>)+)</tr>", page)[-2:]
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in rows]
    assert cells[0] == ["1", "0.60", "0.50 to 0.70", "25 %"]
    assert cells[1] == ["2", "1.00", "1.00 to 1.00", "&lt;1 %"]
    assert 'name="viewport"' in page
    assert "src=" not in page
    assert "{{" not in page


def test_gates_are_drawn_below_the_variances_of_the_same_dimensions():
    variance = [2.0, 0.0, 8.0, 4.0]
    learnt = [gates([0.2, 0.9, 0.8, 0.4]), gates([0.4, 0.9, 0.6, 0.4])]
    above, below = variance_figure(variance, learnt).axes
    np.testing.assert_allclose(above.lines[0].get_xydata(), [[1, 8], [2, 4], [3, 2]])
    wanted = [[1, 0.7], [2, 0.4], [3, 0.3]]  # the constant dimension is nowhere
    np.testing.assert_allclose(points(below, "mean over seeds"), wanted)
    (band,) = below.collections
    ends = [sorted(segment[:, 1]) for segment in band.get_segments()]
    np.testing.assert_allclose(ends, [[0.6, 0.8], [0.4, 0.4], [0.2, 0.4]])
    assert len(variance_figure(variance).axes) == 1


def test_many_dimensions_have_a_running_median():
    generator = np.random.default_rng(0)
    variance, s = generator.uniform(1, 2, 400), generator.uniform(0, 1, 400)
    _, below = variance_figure(variance.tolist(), [gates(s)]).axes
    ordered = s[np.argsort(-variance)]
    found = points(below, "its running median")[:, 1]
    assert found[200] == pytest.approx(np.median(ordered[195:206]))
    assert found[0] == pytest.approx(np.median(ordered[:6]))


def test_k_is_drawn_against_epochs_with_gaps_where_it_is_undefined():
    (axes,) = k_figure([gates([0.5]), gates([0.5], 1, k=(0.7, 2.0))]).axes
    np.testing.assert_allclose(points(axes, "layer 1"), [[0, 1], [1, 0.7], [10, 0.6]])
    np.testing.assert_allclose(points(axes, "layer 2"), [[0, 1], [10, 1.5]])
    assert points(axes, "kept epoch")[:, 0].tolist() == [9, 9]


def test_k_that_is_nowhere_defined_is_no_error():
    nowhere = LearntGates(0, 1, [None], [0.0], [0.5], [0, 1], [[None], [None]])
    (axes,) = k_figure([nowhere]).axes
    assert len(points(axes, "layer 1")) == 0


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
