"""Classical recommenders held against their definitions, and lists against another package's."""

import numpy as np
import pytest
import torch

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickGraph, SplitRule, split_clicks
from drgcn.recommend.retrieval import baselines
from drgcn.recommend.retrieval.baselines import click_matrix, ease, item_knn, score_baselines
from drgcn.recommend.retrieval.evaluation import users_to_evaluate

from ..study.small import timed

USERS, ITEMS = 30, 14


@pytest.fixture
def clicks():
    """A sparse matrix of clicks; user 0 and item 3 have none."""
    dense = np.random.default_rng(0).random((USERS, ITEMS)) < 0.3
    dense[0], dense[:, 3] = 0, 0
    users, items = map(torch.from_numpy, dense.nonzero())
    return click_matrix(ClickGraph.from_pairs(users, items, USERS, ITEMS))


@pytest.fixture
def split():
    return split_clicks(timed(), SplitRule("random", share=0.2))


@pytest.mark.parametrize(("neighbors", "shrink", "pairs"), [(3, 0, 2**24), (5, 10, 40)])
def test_item_knn_by_loops(clicks, neighbors, shrink, pairs, monkeypatch):
    monkeypatch.setattr(baselines, "_PAIRS", pairs)
    x = clicks.toarray()
    scores = np.zeros((USERS, ITEMS))
    for j in range(ITEMS):
        cosine = {}
        for i in range(ITEMS):
            both = x[:, i] @ x[:, j]
            if i != j and both:
                cosine[i] = both / (np.sqrt(x[:, i].sum() * x[:, j].sum()) + shrink)
        nearest = sorted(cosine, key=lambda i: (-cosine[i], i))[:neighbors]
        for i in nearest:
            scores[:, j] += x[:, i] * cosine[i]
    users = np.array([5, 0, 29])
    assert item_knn(clicks, neighbors, shrink)(users) == pytest.approx(scores[users])


@pytest.mark.parametrize("held", [2**24, 20])
def test_ease_is_a_regression_on_all_other_items(clicks, held, monkeypatch):
    monkeypatch.setattr(baselines, "_SCORES", held)
    x = clicks.toarray()
    scores = np.zeros((USERS, ITEMS))
    for j in range(ITEMS):
        others = np.delete(np.arange(ITEMS), j)
        gram = x[:, others].T @ x[:, others] + 4.0 * np.eye(ITEMS - 1)
        scores[:, j] = x[:, others] @ np.linalg.solve(gram, x[:, others].T @ x[:, j])
    assert ease(clicks, 4.0)(np.arange(USERS)) == pytest.approx(scores, abs=1e-12)
    with pytest.raises(InputError, match="penalty above 0"):
        ease(clicks, 0)


@pytest.mark.parametrize("exclude_seen", [False, True])
def test_lists_go_by_score_then_by_clicks(split, exclude_seen, monkeypatch):
    monkeypatch.setattr(baselines, "_SCORES", 500)
    graph = split.test.train
    train = graph.by_user
    score = np.random.default_rng(1).integers(0, 3, (graph.num_users, graph.num_items))
    make = baselines._list_maker(lambda users: score[users].astype(float), train, 15, exclude_seen)
    users = torch.arange(0, graph.num_users, 7)
    clicks = graph.by_item.degree.tolist()
    for user, found in zip(users.tolist(), make(users).tolist(), strict=True):
        seen = set(train.col[train.rowptr[user] : train.rowptr[user + 1]].tolist())
        free = [i for i in range(graph.num_items) if not (exclude_seen and i in seen)]
        best = sorted(free, key=lambda i: (-score[user, i], -clicks[i], i))[:15]
        assert found == best + [-1] * (15 - len(best))


def test_validation_chooses_and_the_test_is_not_seen(split, monkeypatch):
    fitted = []

    def fit(clicks, quality):
        fitted.append((quality, clicks.nnz))
        noise = np.random.default_rng(0).random(clicks.shape)
        return lambda users: quality * clicks[users].toarray() + noise[users]

    monkeypatch.setitem(baselines.SETTINGS, "EASE", {"quality": (0.0, -9.0, 2.0)})
    monkeypatch.setitem(baselines._FITS, "EASE", fit)
    (found,) = score_baselines(split.validation, split.test, (5, 10), names=["EASE"])
    before, all_ = split.validation.train.num_clicks, split.test.train.num_clicks
    assert fitted[:3] == [(0.0, before), (-9.0, before), (2.0, before)]
    # What was clicked is not clicked again here: to avoid it is best.
    assert fitted[3:] == [(-9.0, all_)]
    assert found.settings == {"quality": -9.0}
    assert int(np.argmax(found.validation_recall)) == 1
    assert [*found.lists] == [5, 10]
    assert found.lists[10].values.users.numel() == int(
        (split.test.targets.by_user.degree > 0).sum()
    )


def test_what_does_not_fit_or_is_not_installed_is_refused(split, monkeypatch):
    monkeypatch.setattr(baselines.importlib.util, "find_spec", lambda name: None)
    arguments = (split.validation, split.test, (5,))
    few, ials = score_baselines(*arguments, names=["EASE", "iALS"], memory=1000)
    assert (few.lists, ials.lists) == ({}, {})
    assert "Expected EASE to fit 0.0 GiB" in few.refused
    assert "ials" in ials.refused
    assert few.to_dict()["refused"] == few.refused
    for wrong in ({"names": ["SLIM"]}, {"names": ["popular"], "exclude_seen": True}):
        lengths = (5,) if "SLIM" in wrong["names"] else ()
        with pytest.raises(InputError, match="Expected"):
            score_baselines(*arguments[:2], lengths, **wrong)


def test_measures_are_those_of_implicit():
    """Scores and measures of the package, for its own model and ours of the same settings."""
    evaluation = pytest.importorskip("implicit.evaluation")
    from implicit.cpu.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    split = split_clicks(timed(), SplitRule("random", share=0.2)).test
    assert bool((split.train.by_user.degree > 0).all())
    settings = {"factors": 8, "alpha": 5, "penalty": 3}
    users = users_to_evaluate(split)
    found = baselines._measured("iALS", settings, split, (10,), True, users, None)[10].values
    train, test = (click_matrix(part).astype(np.float32) for part in (split.train, split.targets))
    model = AlternatingLeastSquares(
        factors=8, regularization=3, alpha=5, iterations=15, num_threads=1, random_state=0
    )
    with threadpool_limits(1, "blas"):
        model.fit(train, show_progress=False)
        theirs = evaluation.ranking_metrics_at_k(
            model, train, test, K=10, show_progress=False, num_threads=1
        )
    assert float(found.ndcg.mean()) == pytest.approx(theirs["ndcg"], rel=1e-5)
    assert float(found.map.mean()) == pytest.approx(theirs["map"], rel=1e-5)
    # Their precision is over all users together, of the hits that were possible.
    wanted = split.targets.by_user.degree[found.users].clamp(max=10).sum()
    hits = float((found.precision * 10).sum())
    assert hits / float(wanted) == pytest.approx(theirs["precision"], rel=1e-5)
