import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.retrieval import exact_top
from drgcn.recommend.serving import (
    ExportFolder,
    ExportSettings,
    LoadedRun,
    Recommender,
    export,
    recommender,
)
from drgcn.recommend.serving.requests import RecommendRequest, answers_together
from drgcn.recommend.serving.server import HttpLimits

from ..retrieval.brute_force import ranked
from .conftest import shop_data


def seen_by(rows):
    graph = shop_data().graph.by_user
    return [set(graph.col[graph.rowptr[r] : graph.rowptr[r + 1]].tolist()) for r in rows.tolist()]


@pytest.mark.parametrize("exclude_seen", [False, True])
def test_exact_lists_are_those_of_brute_force(exported, exclude_seen):
    rows = torch.tensor([59, 3, 3, 0, 41])  # user 59 has no clicks
    users, items = exported.users.vectors()[rows], exported.items
    seen = seen_by(rows) if exclude_seen else None
    scores, found = ranked(users, items, 12, seen=seen)
    top = Recommender(exported).for_users(rows, 12, exclude_seen=exclude_seen, exact=True)
    assert torch.equal(top.items, found)
    assert torch.equal(top.scores, scores)


@pytest.mark.parametrize(("kind", "exclude_seen"), [("flat", True), ("ivf", False), ("ivf", True)])
def test_an_index_that_looks_everywhere_finds_the_exact_lists(shop, tmp_path, kind, exclude_seen):
    settings = ExportSettings(index=kind, recall=1.0, n=20)
    export(LoadedRun.open(shop / "run"), tmp_path / "e", settings)
    found = ExportFolder(tmp_path / "e")
    if kind == "ivf":
        found.index.effort = found.index.index.nlist
    rows = torch.arange(60)
    searcher = Recommender(found)
    exact = searcher.for_users(rows, 20, exclude_seen=exclude_seen, exact=True)
    top = searcher.for_users(rows, 20, exclude_seen=exclude_seen)
    torch.testing.assert_close(top.scores, exact.scores)
    assert (top.items == exact.items).float().mean() > 0.99  # near ties may change places


def test_nothing_seen_comes_out_and_lists_are_full(shop, tmp_path, monkeypatch):
    monkeypatch.setattr(recommender, "MANY_SEEN", 17)  # some users are searched exactly
    export(LoadedRun.open(shop / "run"), tmp_path / "e", ExportSettings(index="ivf", n=5))
    found = ExportFolder(tmp_path / "e")
    found.index.effort = 1  # a cell holds too few items for some lists
    rows = torch.arange(60)
    seen = seen_by(rows)
    sizes = [len(items) for items in seen]
    assert min(sizes) <= 17 < max(sizes)
    top = Recommender(found).for_users(rows, 390, exclude_seen=True)
    for row, items in enumerate(top.items):
        listed = items[items >= 0].tolist()
        assert len(listed) == len(set(listed)) == min(390, 400 - sizes[row])
        assert not seen[row] & set(listed)
        assert (items[len(listed) :] == -1).all()


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw", "none"])
def test_lists_do_not_depend_on_who_else_asks(shop, tmp_path, kind, monkeypatch):
    monkeypatch.setattr(recommender, "MANY_SEEN", 17)
    export(LoadedRun.open(shop / "run"), tmp_path / "e", ExportSettings(index=kind, n=5))
    searcher = Recommender(ExportFolder(tmp_path / "e"))
    lists = [["u07"], ["u12", "u59", "u12"], ["u33"], [f"u{k}" for k in range(20, 31)]]
    limits = HttpLimits()
    for options in ({"exclude_seen": True}, {"exact": True}, {}):
        asked = [RecommendRequest(users=users, n=30, **options) for users in lists]
        alone = [one.answer(searcher, limits) for one in asked]
        assert answers_together(asked, searcher, limits) == alone
    with pytest.raises(InputError, match="nobody"):
        answers_together(
            [RecommendRequest(users=[u]) for u in ("u07", "nobody")], searcher, limits
        )
    if kind != "hnsw":
        with pytest.raises(InputError, match="at most 16"):
            answers_together([RecommendRequest(users=["u07"] * 17)], searcher, limits)


def test_which_requests_may_go_together():
    alone = [{"users": ["a"], "deny": ["b"]}, {"clicked": [["b"]]}, {"attributes": [{}]}]
    alone += [{"users": ["a"], "skip_unknown": True}, {"users": ["a"], "allow": []}]
    assert all(RecommendRequest(**one).shared is None for one in alone)
    plain, longer = (RecommendRequest(users=["a"], n=n).shared for n in (3, 4))
    assert plain is not None
    assert plain != longer


def test_a_list_longer_than_all_items(exported):
    for exact in (False, True):
        top = Recommender(exported).for_users(torch.tensor([5]), 500, exact=exact)
        assert sorted(top.items[0, :400].tolist()) == list(range(400))
        assert (top.items[0, 400:] == -1).all()
    with pytest.raises(InputError, match="at least one"):
        Recommender(exported).for_users(torch.tensor([5]), 0)


def test_nobody(exported):
    for exact in (False, True):
        rows = torch.empty(0, dtype=torch.int64)
        top = Recommender(exported).for_users(rows, 5, exact=exact, exclude_seen=True)
        assert top.items.shape == (0, 5)


def test_a_cold_user_has_the_vector_of_one_without_clicks(exported, shop):
    """Users 55 to 59 have no clicks: their vectors come from attributes alone."""
    data = shop_data()
    rows = []
    for user in range(55, 60):
        numbers = zip("abc", data.users.numeric[user].tolist(), strict=True)
        codes = zip(("kind", "place"), data.users.categories[user].tolist(), strict=True)
        known = {name: value for name, value in numbers if value == value}
        rows.append(known | {name: code for name, code in codes if code >= 0})
    vectors = exported.cold_users.vectors(rows)
    torch.testing.assert_close(vectors, exported.users.vectors()[55:])
    top = Recommender(exported).for_vectors(vectors, 10, exact=True)
    expected = exact_top(exported.users.vectors()[55:], exported.items, 10)
    assert (top.items == expected.items).float().mean() > 0.9


def test_attributes_that_cannot_be_used(exported, shop, tmp_path):
    for words, row in (
        ("finite numbers; found nan for 'a' of user 1", {"a": float("nan")}),
        ("finite numbers; found inf", {"a": float("inf")}),
        ("among a, b, c, kind, place; found age", {"age": 3}),
        ("finite number for 'a'; found 'tall'", {"a": "tall"}),
    ):
        with pytest.raises(InputError, match=words):
            exported.cold_users.vectors([{}, row])
    unseen = exported.cold_users.vectors([{"kind": "99"}, {}])
    torch.testing.assert_close(unseen[0], unseen[1])  # a category nobody has seen is missing
    export(LoadedRun.open(shop / "light"), tmp_path / "e", ExportSettings(n=5, seen=False))
    light = ExportFolder(tmp_path / "e")
    with pytest.raises(InputError, match="knows them by their clicks alone"):
        _ = light.cold_users
    with pytest.raises(InputError, match="was written with --no-seen"):
        _ = light.seen
    assert not light.manifest.normalised
