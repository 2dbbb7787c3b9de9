"""Attributes of somebody new."""

from dataclasses import replace

import pyarrow as pa
import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.attributes import AttributeTable, attribute_rows

TABLE = AttributeTable(
    torch.zeros(1, 2),
    torch.zeros(1, 2, dtype=torch.int32),
    ("age", "height"),
    ("town", "new"),
    (2, 2),
    (pa.array(["Bern", "Zug"], pa.large_string()), pa.array(["false", "true"], pa.large_string())),
)


def test_values_find_their_codes():
    rows = [{"age": 3, "town": "Zug", "new": True}, {"height": 1.5, "town": "Rome"}, {"age": None}]
    new = attribute_rows(TABLE, rows)
    assert str(new.numeric.tolist()) == "[[3.0, nan], [nan, 1.5], [nan, nan]]"
    assert new.categories.tolist() == [[1, 1], [-1, -1], [-1, -1]]
    assert new.category_names == TABLE.category_names
    assert len(attribute_rows(TABLE, [])) == 0


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"size": 3}, "Expected attributes among age, height, town, new; found size"),
        ({"age": "old"}, "a finite number for 'age'; found 'old'"),
        ({"age": float("inf")}, "a finite number for 'age'"),
        ({"age": 10**400}, "a finite number for 'age'"),
    ],
)
def test_rows_that_cannot_be(row, words):
    with pytest.raises(InputError, match=words):
        attribute_rows(TABLE, [row])


def test_codes_alone_do_not_do():
    with pytest.raises(InputError, match="found codes alone"):
        attribute_rows(replace(TABLE, category_values=()), [{}])
