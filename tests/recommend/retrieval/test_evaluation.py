import itertools
import json
import math

import pytest
import torch
import torch.nn.functional as F

from drgcn.errors import InputError
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.clicks.splits import ClickSplit
from drgcn.recommend.retrieval import Tiling, evaluate

from .brute_force import ranked

USERS, ITEMS = 60, 300


def some_split():
    """Users from 40 on are cold; some have nothing to find; some targets were clicked before."""
    train = torch.stack([torch.randint(40, (400,)), torch.randint(ITEMS, (400,))])
    targets = torch.stack([torch.randint(5, USERS, (200,)), torch.randint(ITEMS, (200,))])
    targets = torch.cat([targets, train[:, :20]], dim=1)
    return ClickSplit(*(ClickGraph.from_pairs(*pair, USERS, ITEMS) for pair in (train, targets)))


def rows(graph):
    ends, col = graph.by_user.rowptr.tolist(), graph.by_user.col.tolist()
    return [set(col[a:b]) for a, b in itertools.pairwise(ends)]


@pytest.mark.parametrize("exclude_seen", [False, True])
@pytest.mark.parametrize("metric", ["ip", "l2"])
def test_equals_a_slow_evaluation(metric, exclude_seen):
    split = some_split()
    vectors, items = torch.randn(USERS, 12), torch.randn(ITEMS, 12)
    report = evaluate(vectors, items, split, 10, exclude_seen=exclude_seen, metric=metric)
    train, targets = rows(split.train), rows(split.targets)
    _, lists = ranked(vectors, items, 10, metric, train if exclude_seen else None)
    values = {"all": [], "warm": [], "cold": []}
    for user in range(USERS):
        if not targets[user]:
            continue
        hits = [k for k, item in enumerate(lists[user].tolist()) if item in targets[user]]
        best = sum(1 / math.log2(k + 2) for k in range(min(10, len(targets[user]))))
        value = (
            len(hits) / len(targets[user]),
            float(bool(hits)),
            sum(1 / math.log2(k + 2) for k in hits) / best,
        )
        values["all"].append(value)
        values["warm" if train[user] else "cold"].append(value)
    for group, found in values.items():
        means = [sum(column) / len(found) for column in zip(*found, strict=True)]
        for measure, mean in zip(("recall", "hit_rate", "ndcg"), means, strict=True):
            assert report.model[group][measure].mean == pytest.approx(mean)
            assert report.model[group][measure].users == len(found)
    assert report.seen_targets == sum(len(a & b) for a, b in zip(train, targets, strict=True))
    json.dumps(report.to_dict())


def test_chunks_and_tilings_change_nothing():
    split = some_split()
    vectors, items = F.normalize(torch.randn(USERS, 12)), F.normalize(torch.randn(ITEMS, 12))
    whole = evaluate(vectors, items, split, 10, exclude_seen=True)
    tiling = Tiling(users=16, items=16, chunk=1, fold=1, columns=2, dtype="bfloat16")
    parts = evaluate(vectors, items, split, 10, exclude_seen=True, chunk=7, tiling=tiling)
    for name in ("users", "recall", "ndcg"):
        assert torch.equal(getattr(whole.values, name), getattr(parts.values, name))
    assert whole.chance == parts.chance
    assert whole.popularity == parts.popularity
    assert whole.difference(parts).mean == 0
    some = evaluate(vectors, items, split, 10, exclude_seen=True, users=torch.arange(30, 50))
    alone = evaluate(vectors, items, split, 10, exclude_seen=True, baselines=False)
    assert alone.model == whole.model
    assert alone.to_dict()["popularity"] == alone.chance == {}
    kept = (whole.values.users >= 30) & (whole.values.users < 50)
    assert torch.equal(some.values.recall, whole.values.recall[kept])


@pytest.mark.parametrize("exclude_seen", [False, True])
def test_chance_is_what_random_vectors_find(exclude_seen):
    split = some_split()
    reports = [
        evaluate(
            torch.randn(USERS, 6), torch.randn(ITEMS, 6), split, 20, exclude_seen=exclude_seen
        )
        for _ in range(60)
    ]
    for measure in ("recall", "hit_rate", "ndcg"):
        found = torch.tensor([report.model["all"][measure].mean for report in reports])
        chance = reports[0].chance["all"][measure].mean
        assert abs(float(found.mean()) - chance) < 4 * float(found.std()) / 60**0.5


def test_bad_input():
    split = some_split()
    with pytest.raises(InputError, match="60 users and 300 items"):
        evaluate(torch.randn(59, 4), torch.randn(ITEMS, 4), split)
    with pytest.raises(InputError, match="something to find"):
        evaluate(torch.randn(USERS, 4), torch.randn(ITEMS, 4), split, users=torch.tensor([0])[:0])
