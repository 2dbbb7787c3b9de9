"""Attributes: numbers, categories, gaps."""

from dataclasses import replace

import pyarrow as pa
import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks.attributes import AttributeTable, attribute_rows


def table(**changes):
    parts = {
        "numeric": torch.tensor([[1.0, 2.0], [float("nan"), 4.0], [5.0, 6.0]]),
        "categories": torch.tensor([[1], [-1], [0]], dtype=torch.int32),
        "numeric_names": ("age", "height"),
        "category_names": ("town",),
        "category_sizes": (2,),
        "category_values": (pa.array(["Ulm", "Zürich"], pa.large_string()),),
    }
    return AttributeTable(**(parts | changes))


@pytest.mark.parametrize("mmap", [True, False])
def test_written_and_read(tmp_path, mmap):
    whole = table()
    whole.save(tmp_path / "t")
    again = AttributeTable.load(tmp_path / "t", mmap)
    assert torch.equal(again.numeric.nan_to_num(-1), whole.numeric.nan_to_num(-1))
    assert again.numeric[1, 0].isnan()
    assert torch.equal(again.categories, whole.categories)
    assert again.numeric_names == ("age", "height")
    assert (again.category_names, again.category_sizes) == (("town",), (2,))
    assert again.category_values[0].to_pylist() == ["Ulm", "Zürich"]


def test_tables_of_one_kind_alone(tmp_path):
    numbers = table(
        categories=torch.empty(3, 0, dtype=torch.int32),
        category_names=(),
        category_sizes=(),
        category_values=(),
    )
    codes = table(numeric=torch.empty(3, 0), numeric_names=(), category_values=())
    for name, one in (("numbers", numbers), ("codes", codes)):
        one.save(tmp_path / name)
        again = AttributeTable.load(tmp_path / name)
        assert len(again) == 3
        assert again.category_names == one.category_names
        assert again.category_values == ()


def test_rows_in_any_order():
    some = table().rows(torch.tensor([2, 0, 0]))
    assert some.numeric[:, 1].tolist() == [6, 2, 2]
    assert some.categories.flatten().tolist() == [0, 1, 1]
    assert len(some.to("cpu")) == 3


def test_tables_that_do_not_fit_together():
    for changes, words in [
        ({"numeric": torch.zeros(3, 2, dtype=torch.float64)}, "numeric as torch.float32"),
        ({"numeric": torch.zeros(3, 1)}, "a column for each name"),
        ({"categories": torch.zeros(3, 1, dtype=torch.int64)}, "categories as torch.int32"),
        ({"numeric": torch.zeros(2, 2)}, "as many rows of numbers as of categories"),
        ({"category_sizes": ()}, "one size for each column"),
        ({"category_sizes": (3,)}, "as many values as codes"),
    ]:
        with pytest.raises(InputError, match=words):
            table(**changes)


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(InputError, match=r"AttributeTable\.save wrote"):
        AttributeTable.load(tmp_path)


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


def test_rows_that_cannot_be():
    for row, words in [
        ({"size": 3}, "Expected attributes among age, height, town, new; found size"),
        ({"age": "old"}, "a finite number for 'age'; found 'old'"),
        ({"age": float("inf")}, "a finite number for 'age'"),
        ({"age": 10**400}, "a finite number for 'age'"),
    ]:
        with pytest.raises(InputError, match=words):
            attribute_rows(TABLE, [row])


def test_codes_alone_do_not_do():
    with pytest.raises(InputError, match="found codes alone"):
        attribute_rows(replace(TABLE, category_values=()), [{}])
