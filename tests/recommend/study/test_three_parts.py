from dataclasses import replace

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickGraph
from drgcn.recommend.study import EvaluationSplit

from .small import official, timed


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


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: EvaluationSplit.by_time(timed(), 6), "Give fewer days"),
        (lambda: EvaluationSplit.by_time(official(), 1), "Use the official split"),
        (lambda: EvaluationSplit.official(timed()), "Split by time"),
        (lambda: EvaluationSplit.official(official(("train", "test")), 0.0), "between 0 and 1"),
        (lambda: EvaluationSplit.official(official(("train", "test")), 1e-9), "none in valid"),
    ],
)
def test_what_cannot_be_divided_is_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()
