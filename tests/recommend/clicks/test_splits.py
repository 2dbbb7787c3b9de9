"""What is seen and what is to be found."""

from dataclasses import replace

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ClickGraph, ClickSplit, SplitRule, split_clicks
from drgcn.recommend.clicks.data import click_weights
from drgcn.recommend.clicks.splits import hold_out
from drgcn.recommend.study import EvaluationSplit

from ..model.clicks import graph as random_clicks
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


def parts_of(split):
    """The part of each pair."""
    return clicks_of(split.graph)


def test_a_share_by_time_takes_whole_days():
    data = timed()
    days = clicks_of(data.graph)
    parts = parts_of(split_clicks(data, SplitRule("time", share=0.2)))
    least = 0.2 * len(days)
    begin = max(d for d in range(12) if sum(day >= d for day in days.values()) >= least)
    held = sum(begin > day for day in days.values())
    before = max(d for d in range(begin) if sum(d <= x < begin for x in days.values()) >= least)
    assert 0 < before < begin
    assert held == sum(part < 2 for part in parts.values())
    assert parts == {pair: (day >= begin) + (day >= before) for pair, day in days.items()}
    every_day_at_once = ClickData(graph((4, 4, 4, 4, 4)))
    with pytest.raises(InputError, match="none in train and valid"):
        split_clicks(every_day_at_once, SplitRule("time"))


def test_the_last_click_of_each_user_is_left_out():
    data = timed()
    split = split_clicks(data, SplitRule("last"))
    days, parts = clicks_of(data.graph), parts_of(split)
    drawn = users = 0
    for user in range(data.graph.num_users):
        mine = {pair: part for pair, part in parts.items() if pair[0] == user}
        by_part = [[days[pair] for pair in mine if mine[pair] == part] for part in range(3)]
        if len(mine) < 3:
            assert set(mine.values()) <= {0}
            continue
        assert (len(by_part[1]), len(by_part[2])) == (1, 1)
        assert max(by_part[0]) <= by_part[1][0] <= by_part[2][0]
        users += 1
        drawn += by_part[1] == by_part[2]
    assert 0 < drawn < users
    assert f"{users} users" in split.name
    assert f"drawn for {drawn} among several" in split.name
    with pytest.raises(InputError, match="none in valid and test"):
        split_clicks(ClickData(graph()), SplitRule("last"))  # nobody has three clicks
    other = parts_of(split_clicks(data, SplitRule("last", seed=1)))
    changed = {pair[0] for pair in parts if parts[pair] != other[pair]}
    assert changed  # one day has no order: another seed draws other clicks of it


def test_a_random_share_goes_by_its_seed():
    data = official()  # the parts that came are not looked at
    one, again, other = (
        split_clicks(data, SplitRule("random", share=0.2, seed=seed)) for seed in (3, 3, 4)
    )
    assert parts_of(one) == parts_of(again) != parts_of(other)
    count = data.graph.num_clicks
    for part in ("valid", "test"):
        assert abs(one.counts[part] / count - 0.2) < 4 * (0.2 * 0.8 / count) ** 0.5


def test_rules_as_text():
    for text in ("official:0.1", "days:7", "time:0.2", "last", "last:2", "random:0.1:3"):
        assert str(SplitRule.parse(text)) == text
    assert SplitRule.parse("official") == SplitRule("official")
    data = official()
    assert parts_of(split_clicks(data, SplitRule("official"))) == clicks_of(data.graph)
    assert split_clicks(timed(), SplitRule("days", days=3)).counts["test"] > 0
    for text in ("week", "days:x", "days:0", "time:0.5", "last:1:2", "random:0.1:-1", "days:1.5"):
        with pytest.raises(InputError, match="Expected"):
            SplitRule.parse(text)
    for kind in ("last", "time"):
        with pytest.raises(InputError, match="Use the official split"):
            split_clicks(data, SplitRule(kind))


def test_few_targets_are_warned_of():
    few = ClickSplit.by_time(graph())
    assert "only 2 clicks to find" in few.warning
    users, items = torch.arange(2000) % 50, torch.arange(2000) // 50
    days = (torch.arange(2000) >= 1000).long()
    assert ClickSplit.by_time(ClickGraph.from_pairs(users, items, 50, 40, days)).warning == ""


def test_the_last_days_are_held_out():
    days = torch.tensor([0] * 60 + [1] * 20 + [2] * 14 + [3] * 4 + [4] * 2)
    clicks = ClickGraph.from_pairs(torch.arange(100) % 10, torch.arange(100) // 10, 10, 10, days)
    for share, held in [(0.1, 6), (0.2, 20), (0.01, 2), (0.9, 40)]:
        split = hold_out(clicks, share)
        assert (split.train.num_clicks, split.targets.num_clicks) == (100 - held, held)
        assert sorted(pairs(split.train) + pairs(split.targets)) == sorted(pairs(clicks))
    assert hold_out(clicks, day=3).targets.num_clicks == 6
    assert "days from 3 on" in hold_out(clicks, day=3).name


@pytest.mark.parametrize("days", [None, 1])
def test_without_days_a_share_of_every_users_clicks_is_held_out(days):
    clicks = random_clicks(users=300, items=200, clicks=9000, days=days)
    split = hold_out(clicks, 0.2)
    assert not set(pairs(split.train)) & set(pairs(split.targets))
    assert sorted(pairs(split.train) + pairs(split.targets)) == sorted(pairs(clicks))
    degree = clicks.by_user.degree
    held = split.targets.by_user.degree
    assert ((held - 0.2 * degree).abs() < 1).all()
    assert abs(float(held.sum()) / clicks.num_clicks - 0.2) < 0.01
    # A user's items are held out alike: neither the first nor the last of the row alone.
    means = [part.by_user.col.double().mean() for part in (split.targets, split.train)]
    assert abs(float(means[0] / means[1]) - 1) < 0.1
    lone = ClickGraph.from_pairs(torch.arange(50), torch.zeros(50).long(), 50, 1)
    with pytest.raises(InputError, match="found 50 and 0"):
        hold_out(lone, 0.5)


def test_a_day_with_most_of_the_clicks_is_not_held_out():
    clicks = random_clicks(users=300, items=200, clicks=9000, days=1)
    assert clicks.days is not None
    days = torch.ones_like(clicks.days)
    days[:90] = 0
    clicks = ClickGraph(clicks.by_user, clicks.by_item, days)
    split = hold_out(clicks)
    assert split.name == "validation: 10% of every user's clicks"
    assert 0.08 < split.targets.num_clicks / clicks.num_clicks < 0.12
    assert hold_out(clicks, after=0).targets.num_clicks == clicks.num_clicks - 90


def test_nothing_up_to_a_day_is_held_out():
    days = torch.tensor([0] * 60 + [1] * 20 + [2] * 14 + [3] * 4 + [4] * 2)
    clicks = ClickGraph.from_pairs(torch.arange(100) % 10, torch.arange(100) // 10, 10, 10, days)
    assert hold_out(clicks, 0.2, after=2).targets.num_clicks == 6
    assert hold_out(clicks, 0.01, after=0).targets.num_clicks == 2
    with pytest.raises(InputError, match="found 100 and 0"):
        hold_out(clicks, 0.2, after=4)


def test_clicks_of_a_part_weigh_by_their_own_days():
    """Whatever the days of the part stand for: a split numbers its parts by them."""
    clicks = random_clicks(users=30, items=20, clicks=300, days=9)
    data = ClickData(clicks)
    train = split_clicks(data, SplitRule.parse("random:0.2")).test.train
    day = {pair: int(d) for pair, d in zip(pairs(clicks), clicks.days, strict=True)}
    own = [day[pair] for pair in pairs(train)]
    assert clicks.days_of(train).tolist() == own
    expected = [0.5 ** ((max(own) - d) / 2.5) for d in own]
    torch.testing.assert_close(
        click_weights(data, train, 2.5), torch.tensor(expected, dtype=torch.float64)
    )
    with pytest.raises(InputError, match="a part of these clicks"):
        train.days_of(clicks)
    with pytest.raises(InputError, match="the parts train, test"):
        click_weights(ClickData(clicks, parts=("train", "test")), train, 1.0)
