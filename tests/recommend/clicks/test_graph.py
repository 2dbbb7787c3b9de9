"""Clicks from both sides, held against dictionaries."""

import builtins
import random

import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickGraph
from drgcn.recommend.clicks.graph import transposed
from drgcn.sampling import CSRGraph

from .tables import clicks_of, pairs_by_item


def random_clicks(seed, count=500, users=30, items=20, days=6):
    draw = random.Random(seed)
    return [
        (draw.randrange(users), draw.randrange(items), draw.randrange(days)) for _ in range(count)
    ]


def first_days(clicks):
    first = {}
    for user, item, day in clicks:
        first[user, item] = min(day, first.get((user, item), day))
    return dict(sorted(first.items()))


def graph_of(clicks, users=30, items=20, with_days=True):
    columns = torch.tensor(clicks, dtype=torch.int64).view(-1, 3).T
    return ClickGraph.from_pairs(
        columns[0], columns[1], users, items, columns[2] if with_days else None
    )


@pytest.mark.parametrize("seed", range(2))
def test_pairs_are_kept_once_with_their_first_day(seed):
    clicks = random_clicks(seed)
    graph = graph_of(clicks)
    expected = first_days(clicks)
    assert len(expected) < len(clicks)
    assert clicks_of(graph) == expected
    assert pairs_by_item(graph) == list(expected)
    assert graph.by_user.rowptr.dtype == graph.by_item.rowptr.dtype == torch.int64
    assert graph.by_user.col.dtype == graph.by_item.col.dtype == torch.int32
    assert graph.days.dtype == torch.int16


def test_days_may_be_unknown_or_negative_and_order_does_not_matter():
    clicks = random_clicks(7)
    assert list(clicks_of(graph_of(clicks, with_days=False))) == list(first_days(clicks))
    early = [(user, item, day - 3) for user, item, day in clicks]
    assert clicks_of(graph_of(early)) == first_days(early)
    in_order = [(*pair, day) for pair, day in first_days(clicks).items()]
    assert clicks_of(graph_of(in_order)) == first_days(clicks)
    assert clicks_of(graph_of(in_order[::-1])) == first_days(clicks)


def test_before_and_on_a_day():
    graph = graph_of(random_clicks(1))
    every = clicks_of(graph)
    for day in range(-1, 8):
        before, on = graph.until(day), graph.on(day)
        assert clicks_of(before) == {pair: d for pair, d in every.items() if d < day}
        assert clicks_of(on) == {pair: d for pair, d in every.items() if d == day}
        assert pairs_by_item(before) == list(clicks_of(before))
        assert pairs_by_item(on) == list(clicks_of(on))
        assert (before.num_users, on.num_items) == (30, 20)
    assert graph.day_range == (0, 5)


def test_no_clicks_at_all():
    graph = graph_of([])
    assert (graph.num_users, graph.num_items, graph.num_clicks) == (30, 20, 0)
    assert graph.by_item.rowptr.tolist() == [0] * 21
    with pytest.raises(InputError, match="Expected clicks with days"):
        _ = graph.day_range


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_both_ways_to_transpose_agree(kind, monkeypatch):
    graph = graph_of(random_clicks(2)).by_user
    graph = CSRGraph(graph.rowptr, graph.col.to(kind), graph.num_cols)
    counted = transposed(graph)
    real = builtins.__import__

    def without_scipy(name, *rest):
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_scipy)
    sorted_ = transposed(graph)
    for part in ("rowptr", "col"):
        assert torch.equal(getattr(counted, part), getattr(sorted_, part))
        assert getattr(counted, part).dtype == getattr(sorted_, part).dtype
    assert counted.col.dtype == kind
    back = transposed(counted)
    assert torch.equal(back.rowptr, graph.rowptr)
    assert torch.equal(back.col, graph.col)


@pytest.mark.parametrize("with_days", [True, False])
def test_mapped_equals_in_memory(tmp_path, with_days):
    graph = graph_of(random_clicks(3), with_days=with_days)
    graph.save(tmp_path / "graph")
    mapped, held = (ClickGraph.load(tmp_path / "graph", mmap) for mmap in (True, False))
    for other in (mapped, held, graph.to("cpu")):
        assert clicks_of(other) == clicks_of(graph)
        assert pairs_by_item(other) == pairs_by_item(graph)
        assert (other.days is None) == (not with_days)
    (tmp_path / "graph" / "by_user" / "col.npy").unlink()  # nothing of it is needed any more
    assert clicks_of(held) == clicks_of(graph)


def test_clicks_that_cannot_be():
    two = torch.tensor([0, 1])
    for users, items, words in (
        (torch.tensor([0, 3]), two, "users from 0 to 2; found 0 to 3"),
        (two, torch.tensor([-1, 1]), "items from 0 to 1; found -1 to 1"),
        (two, torch.tensor([0.0, 1.0]), "items as one list of whole numbers"),
        (two, torch.tensor([0]), "items as one list of whole numbers"),
    ):
        with pytest.raises(InputError, match=words):
            ClickGraph.from_pairs(users, items, 3, 2)
    with pytest.raises(InputError, match="fit 16 bits; found 0 to 40000"):
        ClickGraph.from_pairs(two, two, 3, 2, torch.tensor([0, 40_000]))
    with pytest.raises(InputError, match="one whole day a click"):
        ClickGraph.from_pairs(two, two, 3, 2, torch.tensor([0]))
    with pytest.raises(InputError, match="fewer than 2\\*\\*63 pairs"):
        ClickGraph.from_pairs(two, two, 2**32, 2**32)
    with pytest.raises(InputError, match="Expected clicks with days; found none"):
        ClickGraph.from_pairs(two, two, 3, 2).until(3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_same_on_cuda():
    clicks = random_clicks(4)
    columns = torch.tensor(clicks).T.cuda()
    graph = ClickGraph.from_pairs(columns[0], columns[1], 30, 20, columns[2])
    assert graph.device.type == "cuda"
    assert clicks_of(graph.to("cpu")) == first_days(clicks)
    assert pairs_by_item(graph.until(3).to("cpu")) == pairs_by_item(graph_of(clicks).until(3))
