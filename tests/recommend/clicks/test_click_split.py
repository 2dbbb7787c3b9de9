"""What is seen and what is to be found."""

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ClickGraph, ClickSplit

from .tables import clicks_of


def graph(days=(0, 1, 1, 4, 4)):
    users, items = torch.tensor([0, 0, 1, 2, 1]), torch.tensor([0, 1, 1, 2, 0])
    return ClickGraph.from_pairs(users, items, 4, 3, torch.tensor(days))


def test_by_time():
    last = ClickSplit.by_time(graph())
    assert clicks_of(last.train) == {(0, 0): 0, (0, 1): 1, (1, 1): 1}
    assert clicks_of(last.targets) == {(1, 0): 4, (2, 2): 4}
    early = ClickSplit.by_time(ClickData(graph()), 1).to("cpu")
    assert clicks_of(early.train) == {(0, 0): 0}
    assert clicks_of(early.targets) == {(0, 1): 1, (1, 1): 1}


def test_days_without_clicks_are_refused():
    with pytest.raises(InputError, match=r"Expected clicks on day 3; found none.* from 0 to 4"):
        ClickSplit.by_time(graph(), 3)
    with pytest.raises(InputError, match="Expected clicks before day 0; found none"):
        ClickSplit.by_time(graph(), 0)


def test_official_parts():
    data = ClickData(graph((0, 0, 1, 2, 2)), parts=("train", "valid", "test"))
    test, valid = ClickSplit.official(data), ClickSplit.official(data, "valid")
    assert (test.train.num_clicks, test.targets.num_clicks) == (3, 2)
    assert (valid.train.num_clicks, valid.targets.num_clicks) == (2, 1)
    assert test.name == "official test"
    for part, other in (("train", data), ("test", ClickData(graph()))):
        with pytest.raises(InputError, match="Expected one of the parts"):
            ClickSplit.official(other, part)


def test_sides_must_agree():
    with pytest.raises(InputError, match="between the same users and items"):
        ClickSplit(graph(), ClickGraph.from_pairs(*torch.zeros(2, 1, dtype=torch.int64), 4, 4))
