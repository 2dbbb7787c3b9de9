"""What is seen and what is to be found."""

from dataclasses import replace

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ClickGraph, ClickSplit
from drgcn.recommend.study import EvaluationSplit

from ..study.small import official, timed
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


def pairs(graph):
    users = torch.repeat_interleave(torch.arange(graph.num_users), graph.by_user.degree)
    return list(zip(users.tolist(), graph.by_user.col.tolist(), strict=True))


def test_by_time_cuts_at_days():
    data = timed()
    parts = EvaluationSplit.by_time(data, 3)
    days = dict(zip(pairs(data.graph), data.graph.days.tolist(), strict=True))
    expected = {"train": range(6), "valid": range(6, 9), "test": range(9, 12)}
    found = {
        "train": parts.validation.train,
        "valid": parts.validation.targets,
        "test": parts.test.targets,
    }
    for name, span in expected.items():
        assert set(pairs(found[name])) == {p for p, day in days.items() if day in span}
        assert parts.counts[name] == found[name].num_clicks
    before = set(pairs(found["train"])) | set(pairs(found["valid"]))
    assert set(pairs(parts.test.train)) == before


def test_official_parts_are_kept():
    data = official()
    parts = EvaluationSplit.official(data)
    assert parts.counts == dict(
        zip(
            ("train", "valid", "test"),
            torch.bincount(data.graph.days.long()).tolist(),
            strict=True,
        )
    )


@pytest.mark.parametrize("named", [False, True])  # the part is not there, or is there and empty
def test_a_share_of_train_is_held_out_where_nothing_else_is_there(named):
    data = official(("train", "test"))
    before, test = torch.bincount(data.graph.days.long()).tolist()
    if named:
        graph = ClickGraph(data.graph.by_user, data.graph.by_item, 2 * data.graph.days)
        data = replace(data, graph=graph, parts=("train", "valid", "test"))
    parts = EvaluationSplit.official(data, 0.25)
    assert parts.counts["test"] == test
    assert parts.counts["train"] + parts.counts["valid"] == before
    share = parts.counts["valid"] / before
    assert abs(share - 0.25) < 4 * (0.25 * 0.75 / before) ** 0.5
    again = EvaluationSplit.official(data, 0.25)
    assert torch.equal(parts.graph.days, again.graph.days)


def test_what_cannot_be_divided_is_refused():
    for make, words in [
        (lambda: EvaluationSplit.by_time(timed(), 6), "Give fewer days"),
        (lambda: EvaluationSplit.by_time(official(), 1), "Use the official split"),
        (lambda: EvaluationSplit.official(timed()), "Split by time"),
        (lambda: EvaluationSplit.official(official(("train", "test")), 0.0), "between 0 and 1"),
        (lambda: EvaluationSplit.official(official(("train", "test")), 1e-9), "none in valid"),
    ]:
        with pytest.raises(InputError, match=words):
            make()
