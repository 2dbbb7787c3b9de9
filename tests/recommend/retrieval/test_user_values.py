import math
import random
from itertools import permutations

import pytest
import torch
from torch_geometric.metrics import LinkPredNDCG, LinkPredRecall

from drgcn.errors import InputError
from drgcn.recommend.retrieval import Estimate, UserValues
from drgcn.recommend.retrieval.evaluation import popular_items, random_values
from drgcn.recommend.retrieval.ranking import is_seen
from drgcn.sampling import CSRGraph


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


def by_hand(found, wanted, n):
    hits = [place for place, item in enumerate(found) if item in wanted]
    gain = sum(1 / math.log2(place + 2) for place in hits)
    best = sum(1 / math.log2(place + 2) for place in range(min(len(wanted), n)))
    return len(hits) / len(wanted), float(bool(hits)), gain / best


def test_values_by_hand_and_by_pyg():
    num_items, n = 40, 7
    targets, train = drawn(60, num_items, 12), drawn(60, num_items, 3)
    users = torch.tensor([u for u in range(60) if targets[u]])
    lists = torch.stack([torch.randperm(num_items)[:n] for _ in users])
    lists[3, 4:] = -1
    values = UserValues.of(users, lists, clicks(targets, num_items), clicks(train, num_items))
    for row, user in enumerate(users.tolist()):
        expected = by_hand(lists[row].tolist(), set(targets[user]), n)
        found = (values.recall[row], values.hit_rate[row], values.ndcg[row])
        assert found == pytest.approx(expected)
        assert values.warm[row] == bool(train[user])
    pairs = [(row, item) for row, user in enumerate(users.tolist()) for item in targets[user]]
    # PyG has no list that ends early: there an item stands in that is nobody's target.
    whole = lists.where(lists >= 0, num_items)
    for metric, name in ((LinkPredRecall(n), "recall"), (LinkPredNDCG(n), "ndcg")):
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
    assert not is_seen(clicks([[], []], 5), torch.tensor([0, 1]), torch.zeros(2, 3).long()).any()


def test_groups_add_up_and_intervals_cover():
    warm = torch.rand(500) < 0.7
    values = UserValues(torch.arange(500), warm, *torch.rand(3, 500).double())
    table = values.estimates()
    for measure in ("recall", "hit_rate", "ndcg"):
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
    one = UserValues(users, warm, base, base, base)
    other = UserValues(users, warm, base + 0.005 + noise, base, base)
    gain = other.less(one)
    assert gain.mean == pytest.approx(0.005 + float(noise.mean()))
    assert gain.low > 0
    assert gain.standard_error < Estimate.of(base).standard_error / 20
    with pytest.raises(InputError, match="same users"):
        one.less(UserValues(users + 1, warm, base, base, base))
    with pytest.raises(InputError, match="recall"):
        one.of_group("precision")


@pytest.mark.parametrize("exclude_seen", [False, True])
@pytest.mark.parametrize("places", [1, 50, 2**23])
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
    wanted = {0, 1, 8, 9}
    for n, candidates in ((3, 6), (5, 4)):
        lists = list(permutations(range(candidates), min(n, candidates)))
        values = [by_hand(found, wanted, n) for found in lists]
        expected = [sum(column) / len(values) for column in zip(*values, strict=True)]
        user = UserValues(torch.zeros(1), torch.ones(1), *torch.zeros(3, 1))
        facts = (torch.tensor([number]) for number in (candidates, 4, 2))
        found = random_values(user, n, *facts)
        assert [float(v) for v in (found.recall, found.hit_rate, found.ndcg)] == pytest.approx(
            expected
        )
