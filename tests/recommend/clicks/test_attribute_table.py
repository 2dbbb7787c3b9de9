"""Attributes: numbers, categories, gaps."""

import pyarrow as pa
import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import AttributeTable


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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"numeric": torch.zeros(3, 2, dtype=torch.float64)}, "numeric as torch.float32"),
        ({"numeric": torch.zeros(3, 1)}, "a column for each name"),
        ({"categories": torch.zeros(3, 1, dtype=torch.int64)}, "categories as torch.int32"),
        ({"numeric": torch.zeros(2, 2)}, "as many rows of numbers as of categories"),
        ({"category_sizes": ()}, "one size for each column"),
        ({"category_sizes": (3,)}, "as many values as codes"),
    ],
)
def test_tables_that_do_not_fit_together(changes, words):
    with pytest.raises(InputError, match=words):
        table(**changes)


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(InputError, match=r"AttributeTable\.save wrote"):
        AttributeTable.load(tmp_path)
