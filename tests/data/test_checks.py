from __future__ import annotations

import numpy as np
import pytest

from drgcn.data.checks import from_matrix, from_numbers, from_published, from_stored, from_texts
from drgcn.errors import DrgcnWarning, InputError


def test_one_hot_rows_become_numbers_and_zero_rows_unlabelled() -> None:
    assert from_published(np.array([[0, 1.0], [0, 0], [1, 0]]), "f").tolist() == [1, -1, 0]


def test_published_numbers_stay() -> None:
    assert from_published(np.array([2, 0, 1], dtype=np.int32), "f").tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    "labels",
    [
        np.array([[1, 1], [0, 1]]),
        np.array([0.5, 1]),
        np.array([-2, 0]),
        np.zeros((1, 1, 1)),
        np.array([None, "x"], dtype=object),
        np.array([np.inf, 1]),
        np.array(["0", "1"]),
    ],
)
def test_published_labels_of_another_form_are_refused(labels: np.ndarray) -> None:
    with pytest.raises(InputError, match="one class number or one one-hot row"):
        from_published(labels, "f")


def test_words_are_numbered_in_sorted_order() -> None:
    with pytest.warns(DrgcnWarning, match="'Ab' and 'ab', alike but for case, are two classes"):
        assert from_texts(["ab", "b", "Ab"])[1] == ("Ab", "ab", "b")
    y, names = from_texts(["b", "", "a", "b"])
    assert y.tolist() == [1, -1, 0, 1]
    assert names == ("a", "b")


def test_whole_numbers_are_sorted_by_value() -> None:
    assert from_texts(["10", "9", "-2"])[1] == ("-2", "9", "10")


def test_gaps_in_class_numbers_are_closed() -> None:
    y, names = from_numbers(np.array([[5], [-1], [2]]), 3, "f")
    assert y.tolist() == [1, -1, 0]
    assert names == ("2", "5")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(2), "each of the 3 nodes"),
        (np.zeros((3, 2)), "each of the 3 nodes"),
        (np.array([0, 1, np.nan]), "whole numbers or words"),
        (np.array([0.5, 1, 1]), "whole numbers or words"),
        (np.array([0, 1, -2]), "-2 at node 2"),
        (np.array([-1, 1, 1]), "as 0 and 1"),
    ],
)
def test_numbers_that_are_no_labels_are_refused(values: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_numbers(values, 3, "f")


def test_measured_numbers_are_no_classes() -> None:
    measured = [f"{value:.3f}" for value in np.random.default_rng(0).normal(size=300)]
    with pytest.raises(InputError, match=r"f: labels must be classes, .* give class labels"):
        from_texts(measured, "f")
    with pytest.raises(InputError, match=r"such as 0\.5"):
        from_numbers(np.array(["0.5", "1", "1"]), 3, "f")
    with pytest.raises(InputError, match="such as inf"):
        from_texts(["0", "1", "inf"])


@pytest.mark.parametrize("word", ["nan", "NA", "<NA>", "null", "-1"])
def test_words_for_no_label_are_no_class(word: str) -> None:
    with pytest.raises(InputError, match=f"where it is not known; found '{word}'"):
        from_texts(["0", "1", word])


def test_a_whole_number_is_one_class_however_it_is_written() -> None:
    y, names = from_texts(["1", "1.0", "0", "10.00", "2."])
    assert (y.tolist(), names) == ([1, 1, 0, 3, 2], ("0", "1", "2", "10"))
    assert from_texts(["-1", "1"])[1] == ("-1", "1")


def test_words_and_whole_numbers_are_classes() -> None:
    assert from_texts(["v1.5", "1.5"])[1] == ("1.5", "v1.5")
    assert from_texts(["1.0", "2.0", ""])[1] == ("1", "2")


def test_several_labels_are_a_matrix_of_zeros_and_ones() -> None:
    y, names = from_matrix(np.array([[1, 1], [0, 0]]), 2, "f")
    assert y.dtype == np.float32
    assert y.tolist() == [[1, 1], [0, 0]]
    assert names == ("0", "1")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(3), "for each of the 3 nodes"),
        (np.zeros((2, 3)), "for each of the 3 nodes"),
        (np.full((3, 2), "1"), "<U1 values of shape"),
        (np.array([[0, 1], [0, 1], [np.nan, 1]]), "node 2 has nan at label 0"),
    ],
)
def test_matrices_that_are_no_labels_are_refused(values: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_matrix(values, 3, "f")


def test_stored_matrices_are_several_labels_only_if_that_is_sure() -> None:
    assert from_stored(np.array([[1, 1], [0, 1]]), 2, "f")[0].ndim == 2
    assert from_stored(np.eye(2), 2, "f", multi_label=True)[0].ndim == 2
    assert from_stored(np.array([[3], [4]]), 2, "f")[0].tolist() == [0, 1]
    with pytest.raises(InputError, match=r"of one-hot rows take y\.argmax"):
        from_stored(np.eye(2), 2, "f")


def test_words_that_only_python_reads_as_numbers_are_sorted_as_words() -> None:
    assert from_texts(["2", "1_0"])[1] == ("1_0", "2")
    assert from_texts(["10", "\u0663"])[1] == ("10", "\u0663")
    assert from_texts(["10", "9"])[1] == ("9", "10")
