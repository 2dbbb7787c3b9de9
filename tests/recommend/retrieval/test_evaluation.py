import itertools
import json
import math
import random
from itertools import permutations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch_geometric.metrics import (
    LinkPredMAP,
    LinkPredMRR,
    LinkPredNDCG,
    LinkPredPrecision,
    LinkPredRecall,
)

from drgcn.errors import InputError
from drgcn.recommend.clicks.graph import ClickGraph
from drgcn.recommend.clicks.splits import ClickSplit
from drgcn.recommend.retrieval import Estimate, Tiling, UserValues, evaluate, evaluate_lengths
from drgcn.recommend.retrieval.evaluation import MEASURES, popular_items, random_values
from drgcn.recommend.retrieval.ranking import is_seen
from drgcn.sampling import CSRGraph

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


@pytest.mark.parametrize(("metric", "exclude_seen"), [("ip", False), ("ip", True), ("l2", True)])
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
        value = by_hand(lists[user].tolist(), targets[user], 10, information(train))
        values["all"].append(value)
        values["warm" if train[user] else "cold"].append(value)
    for group, found in values.items():
        means = [sum(column) / len(found) for column in zip(*found, strict=True)]
        for measure, mean in zip(MEASURES, means, strict=True):
            assert report.model[group][measure].mean == pytest.approx(mean)
            assert report.model[group][measure].users == len(found)
    shown = {item for user in range(USERS) if targets[user] for item in lists[user].tolist()}
    assert report.coverage["model"] == pytest.approx(len(shown) / ITEMS)
    assert report.seen_targets == sum(len(a & b) for a, b in zip(train, targets, strict=True))
    json.dumps(report.to_dict())


def test_chunks_and_tilings_change_nothing():
    split = some_split()
    vectors, items = F.normalize(torch.randn(USERS, 12)), F.normalize(torch.randn(ITEMS, 12))
    whole = evaluate(vectors, items, split, 10, exclude_seen=True)
    tiling = Tiling(users=16, items=16, chunk=1, fold=1, columns=2, dtype="bfloat16")
    parts = evaluate(vectors, items, split, 10, exclude_seen=True, chunk=7, tiling=tiling)
    for name in ("users", *MEASURES):
        assert torch.equal(getattr(whole.values, name), getattr(parts.values, name))
    assert whole.chance == parts.chance
    assert whole.popularity == parts.popularity
    assert whole.coverage == parts.coverage
    assert whole.difference(parts).mean == 0
    several = evaluate_lengths(vectors, items, split, (4, 10, 999), exclude_seen=True)
    assert [report.n for report in several.values()] == [4, 10, ITEMS]
    for n in (4, 10):
        alone = evaluate(vectors, items, split, n, exclude_seen=True).to_dict()
        assert {**several[n].to_dict(), "search": 0} == {**alone, "search": 0}
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
            *(torch.randn(USERS, 6), torch.randn(ITEMS, 6), split, 20),
            exclude_seen=exclude_seen,
            baselines=number == 0,
        )
        for number in range(60)
    ]
    for measure in MEASURES:
        found = torch.tensor([report.model["all"][measure].mean for report in reports])
        chance = reports[0].chance["all"][measure].mean
        assert abs(float(found.mean()) - chance) < 4 * float(found.std()) / 60**0.5


def test_bad_input():
    split = some_split()
    with pytest.raises(InputError, match="60 users and 300 items"):
        evaluate(torch.randn(59, 4), torch.randn(ITEMS, 4), split)
    with pytest.raises(InputError, match="something to find"):
        evaluate(torch.randn(USERS, 4), torch.randn(ITEMS, 4), split, users=torch.tensor([0])[:0])


def clicks(rows, num_items):
    """A graph whose row u holds the items of user u."""
    pairs = [(i, u) for u, row in enumerate(rows) for i in row]
    edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    return CSRGraph.from_edge_index(edges, (num_items, len(rows)))


def drawn(users, num_items, most):
    return [random.sample(range(num_items), random.randint(0, most)) for _ in range(users)]


@pytest.fixture(autouse=True)
def _fixed_random():
    random.seed(0)


def by_hand(found, wanted, n, bits):
    """Every measure of one list, in the order of MEASURES."""
    hits = [place for place, item in enumerate(found) if item in wanted]
    gain = sum(1 / math.log2(place + 2) for place in hits)
    most = min(len(wanted), n)
    best = sum(1 / math.log2(place + 2) for place in range(most))
    listed = [item for item in found if item >= 0]
    return (
        len(hits) / len(wanted),
        float(bool(hits)),
        gain / best,
        1 / (hits[0] + 1) if hits else 0.0,
        len(hits) / n,
        sum(number / (place + 1) for number, place in enumerate(hits, 1)) / most,
        sum(bits[item] for item in listed) / len(listed) if listed else 0.0,
    )


def information(rows, num_items=ITEMS):
    counts = np.bincount([item for row in rows for item in row], minlength=num_items)
    return -np.log2((counts + 1) / (len(rows) + 1))


def test_values_by_hand_and_by_pyg():
    num_items, n = 40, 7
    targets, train = drawn(60, num_items, 12), drawn(60, num_items, 3)
    users = torch.tensor([u for u in range(60) if targets[u]])
    lists = torch.stack([torch.randperm(num_items)[:n] for _ in users])
    lists[3, 4:] = -1
    values = UserValues.of(users, lists, clicks(targets, num_items), clicks(train, num_items))
    for row, user in enumerate(users.tolist()):
        bits = information(train, num_items)
        expected = by_hand(lists[row].tolist(), set(targets[user]), n, bits)
        assert [getattr(values, name)[row] for name in MEASURES] == pytest.approx(expected)
        assert values.warm[row] == bool(train[user])
    pairs = [(row, item) for row, user in enumerate(users.tolist()) for item in targets[user]]
    # PyG has no list that ends early: there an item stands in that is nobody's target.
    whole = lists.where(lists >= 0, num_items)
    for metric, name in (
        (LinkPredRecall(n), "recall"),
        (LinkPredNDCG(n), "ndcg"),
        (LinkPredMRR(n), "mrr"),
        (LinkPredPrecision(n), "precision"),
        (LinkPredMAP(n), "map"),
    ):
        metric.update(whole, torch.tensor(pairs).T)
        assert float(metric.compute()) == pytest.approx(
            float(getattr(values, name).mean()), rel=1e-5
        )


def test_is_seen():
    rows = drawn(30, 25, 20)
    graph = clicks(rows, 25)
    users, items = torch.randint(30, (50,)), torch.randint(-1, 25, (50, 9))
    expected = [
        [i in rows[u] for i in line]
        for u, line in zip(users.tolist(), items.tolist(), strict=True)
    ]
    assert is_seen(graph, users, items).tolist() == expected
    assert 9 < graph.num_entries <= items.numel()  # so that each of both ways is gone
    for query, one in enumerate(expected):
        assert is_seen(graph, users[[query]], items[[query]]).tolist() == [one]
    assert not is_seen(clicks([[], []], 5), torch.tensor([0, 1]), torch.zeros(2, 3).long()).any()


def test_groups_add_up_and_intervals_cover():
    warm = torch.rand(500) < 0.7
    values = UserValues(torch.arange(500), warm, *torch.rand(7, 500).double())
    table = values.estimates()
    for measure in MEASURES:
        total, parts = table["all"][measure], [table[g][measure] for g in ("warm", "cold")]
        assert total.users == sum(part.users for part in parts) == 500
        assert total.mean == pytest.approx(sum(p.mean * p.users for p in parts) / 500)
    draws = torch.rand(2000, 400).double()
    kept = [Estimate.of(row) for row in draws]
    covered = sum(e.low <= 0.5 <= e.high for e in kept) / 2000
    assert 0.93 < covered < 0.97
    halves = [Estimate.of(row, 0.5) for row in draws]
    assert 0.45 < sum(e.low <= 0.5 <= e.high for e in halves) / 2000 < 0.55
    none = Estimate.of(torch.empty(0))
    assert none.to_dict() == {
        "mean": None, "standard_error": None, "low": None, "high": None, "users": 0,
    }  # fmt: skip


def test_paired_differences_are_tighter():
    base, noise = torch.rand(1000).double(), 0.01 * torch.randn(1000).double()
    users, warm = torch.arange(1000), torch.ones(1000, dtype=torch.bool)
    one = UserValues(users, warm, *[base] * 7)
    other = UserValues(users, warm, base + 0.005 + noise, *[base] * 6)
    gain = other.less(one)
    assert gain.mean == pytest.approx(0.005 + float(noise.mean()))
    assert gain.low > 0
    assert gain.standard_error < Estimate.of(base).standard_error / 20
    with pytest.raises(InputError, match="same users"):
        one.less(UserValues(users + 1, warm, *[base] * 7))
    with pytest.raises(InputError, match="recall"):
        one.of_group("luck")


@pytest.mark.parametrize(
    ("exclude_seen", "places"), [(False, 50), (True, 1), (True, 50), (True, 2**23)]
)
def test_popular_items_by_hand(exclude_seen, places, monkeypatch):
    monkeypatch.setattr("drgcn.recommend.retrieval.evaluation._POPULAR_PLACES", places)
    rows = [*drawn(40, 20, 15), list(range(20)), list(range(19))]
    graph = clicks(rows, 20)
    counts = [sum(i in row for row in rows) for i in range(20)]
    ranking = sorted(range(20), key=lambda i: (-counts[i], i))
    users = torch.randperm(42)
    for n in (5, 23):
        lists = popular_items(graph, users, n, exclude_seen=exclude_seen)
        for user, found in zip(users.tolist(), lists.tolist(), strict=True):
            free = [i for i in ranking if not (exclude_seen and i in rows[user])][:n]
            assert found == free + [-1] * (n - len(free))


def test_random_lists_by_enumeration():
    # All ordered lists of 3 out of 6 candidates; the user wants 4 items, 2 of them candidates.
    wanted, bits = {0, 1, 8, 9}, np.arange(6.0)
    for n, candidates in ((3, 6), (5, 4)):
        lists = list(permutations(range(candidates), min(n, candidates)))
        values = [by_hand(found, wanted, n, bits) for found in lists]
        expected = [sum(column) / len(values) for column in zip(*values, strict=True)]
        user = UserValues(torch.zeros(1), torch.ones(1), *torch.zeros(7, 1))
        facts = (torch.tensor([number]) for number in (candidates, 4, 2))
        found = random_values(user, n, *facts, torch.tensor([bits[:candidates].mean()]))
        assert [float(getattr(found, name)) for name in MEASURES] == pytest.approx(expected)
