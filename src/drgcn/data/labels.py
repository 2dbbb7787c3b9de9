"""Labels in the forms people store them, turned into class numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from drgcn.data.splits import AnyLabels, Labels, MultiLabels
from drgcn.errors import InputError

IntegerArray = npt.NDArray[Any]


def from_published(labels: npt.NDArray[Any], source: str) -> Labels:
    """Class numbers from one-hot rows (a zero row is an unlabelled node) or from numbers."""
    if labels.ndim == 1:
        numbers = labels.astype(np.int64)
        if (numbers == labels).all() and (numbers >= -1).all():
            return numbers
    elif labels.ndim == 2 and np.isin(labels, (0, 1)).all() and (labels.sum(axis=1) <= 1).all():
        return np.where(labels.any(axis=1), labels.argmax(axis=1), -1).astype(np.int64)
    raise InputError(
        f"{source} must hold one class number or one one-hot row per node, but it holds an array "
        f"of shape {labels.shape} that is neither: fetch the file again"
    )


def from_texts(texts: Sequence[str], source: str = "the labels") -> tuple[Labels, tuple[str, ...]]:
    """Class numbers and names from words; the empty word is an unlabelled node.

    Classes are numbered in sorted order: by value if every word is an integer, else as text.
    """
    words = set(texts) - {""}
    measured = _fraction(words)
    if measured is not None:
        raise InputError(
            f"{source}: labels must be classes, but they are {len(words)} numbers such as "
            f"{measured}, which look measured: give class labels, whole numbers or words"
        )
    try:
        ordered = sorted(words, key=lambda word: (int(word), word))
    except ValueError:
        ordered = sorted(words)
    number = {word: label for label, word in enumerate(ordered)} | {"": -1}
    return np.array([number[text] for text in texts], dtype=np.int64), tuple(ordered)


def from_numbers(
    values: npt.NDArray[Any], nodes: int, source: str
) -> tuple[Labels, tuple[str, ...]]:
    """Class numbers and names from an integer array in which -1 is an unlabelled node."""
    if values.shape == (nodes, 1):
        values = values[:, 0]
    if values.shape != (nodes,):
        raise InputError(
            f"{source}: y must hold one class number for each of the {nodes} nodes, but its shape "
            f"is {values.shape}"
        )
    if values.dtype.kind in "US":
        return from_texts([str(value) for value in values.astype(np.str_)], source)
    if values.dtype.kind not in "biu" and not (
        values.dtype.kind == "f" and (np.abs(values) < 2**31).all() and (values % 1 == 0).all()
    ):
        raise InputError(
            f"{source}: y must hold whole numbers or words, but it holds {values.dtype} values: "
            "write -1 for nodes without a label"
        )
    numbers = values.astype(np.int64)
    if (numbers < -1).any():
        raise InputError(
            f"{source}: y holds {int(numbers.min())} at node {int(numbers.argmin())}, but class "
            "numbers start at 0, and -1 means no label"
        )
    if set(np.unique(numbers).tolist()) == {-1, 1}:
        raise InputError(
            f"{source}: y holds only -1 and 1, but -1 means no label: write the two classes as "
            "0 and 1"
        )
    known = np.unique(numbers[numbers >= 0])
    y = np.where(numbers >= 0, np.searchsorted(known, numbers), -1).astype(np.int64)
    return y, tuple(str(value) for value in known)


def from_matrix(
    values: npt.NDArray[Any], nodes: int, source: str
) -> tuple[MultiLabels, tuple[str, ...]]:
    """Several labels a node: a row of zeros and ones each, one column a label."""
    shape = values.shape
    if values.ndim != 2 or shape[0] != nodes or shape[1] < 2 or values.dtype.kind not in "biuf":
        raise InputError(
            f"{source}: several labels a node are a row of zeros and ones for each of the {nodes} "
            f"nodes, but these are {values.dtype} values of shape {shape}"
        )
    wrong = np.argwhere((values != 0) & (values != 1))
    if len(wrong):
        row, column = wrong[0]
        raise InputError(
            f"{source}: labels must be zeros and ones, but node {row} has {values[row, column]} "
            f"at label {column}"
        )
    return values.astype(np.float32), tuple(str(label) for label in range(shape[1]))


def from_stored(
    values: npt.NDArray[Any], nodes: int, source: str, *, multi_label: bool = False
) -> tuple[AnyLabels, tuple[str, ...]]:
    """Labels of a user's own file: one class a node, or zeros and ones for several labels.

    A matrix holds several labels if ``multi_label`` says so or a node has two of them: where no
    node has, it may be one-hot rows as well, and guessing would change the task.
    """
    matrix = values.ndim == 2 and values.shape[1] > 1 and values.dtype.kind in "biuf"
    if matrix and (
        multi_label or (np.isin(values, (0, 1)).all() and (values.sum(axis=1) > 1).any())
    ):
        return from_matrix(values, nodes, source)
    return from_numbers(values, nodes, source)


def _fraction(words: set[str]) -> str | None:
    """A word that is no whole number, if all words are numbers; class names are not."""
    try:
        values = {word: float(word) for word in sorted(words)}
    except ValueError:
        return None
    return next((word for word, value in values.items() if value % 1 != 0), None)
