"""Popularity as a term of every score: its numbers, its choice, and what an export makes of it."""

import math
import os

import pytest
import torch
import torch.nn.functional as F

from drgcn.cli.recommend.train_options import parse_popularity
from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData, ClickGraph
from drgcn.recommend.clicks.splits import hold_out
from drgcn.recommend.model import Exchange, ModelOptions, TrainSettings, build_model, save_run
from drgcn.recommend.model.fitting import Fitting, Stopping
from drgcn.recommend.retrieval.ranking import Popularity
from drgcn.recommend.serving import (
    ExportFolder,
    ExportSettings,
    LoadedRun,
    Recommender,
    Visitors,
    export,
)

from ..retrieval.brute_force import ranked
from .test_visitors import attributes_of, clicked_by

LATELY = Popularity(2.0, 1.5)


def terms_by_hand(data, graph, weight, half_life, temperature):
    """Each click looked up and counted by its age, in plain Python."""
    user = torch.arange(graph.num_users).repeat_interleave(graph.by_user.degree).tolist()
    every = torch.arange(data.graph.num_users).repeat_interleave(data.graph.by_user.degree)
    days = {
        pair: day
        for *pair_, day in zip(
            every.tolist(), data.graph.by_user.col.tolist(), data.graph.days.tolist(), strict=True
        )
        for pair in [tuple(pair_)]
    }
    pairs = list(zip(user, graph.by_user.col.tolist(), strict=True))
    last = max(days[pair] for pair in pairs)
    found = []
    for item in range(graph.num_items):
        ages = [last - days[pair] for pair in pairs if pair[1] == item]
        term = weight * math.log(1 + sum(0.5 ** (age / (half_life or math.inf)) for age in ages))
        found.append(temperature * (term - (math.log(1 + len(ages)) if half_life else 0)))
    return torch.tensor(found)


@pytest.mark.parametrize("popularity", [Popularity(0.5), LATELY], ids=str)
def test_a_score_is_the_models_and_the_term(shop, popularity):
    data = ClickData.load(shop / "clicks")
    graph = data.graph.until(3)
    users, items = torch.randn(60, 8), torch.randn(400, 8)
    joined = popularity.joined(users, items, data, graph, 0.3)
    terms = terms_by_hand(data, graph, popularity.weight, popularity.half_life, 0.3)
    torch.testing.assert_close(joined[0] @ joined[1].T, users @ items.T + terms)
    assert Popularity().joined(users, items, data, graph, 0.3) == (users, items)


@pytest.fixture(scope="module", params=["lightgcn", "hybrid", "sage"])
def popular(shop, tmp_path_factory, request):
    """A run and its export, with a term that is as large as the rest of a score."""
    folder = tmp_path_factory.mktemp("popular")
    data = ClickData.load(shop / "clicks")
    options = ModelOptions(model=request.param, channels=8, layers=2, fan_outs=(3, 2))
    model = build_model(data, data.graph, options)
    if request.param == "sage":
        model.frozen.fill_(True)
    facts = {"content_hash": data.content_hash, "day": 3, "popularity": LATELY.facts()}
    facts["folder"] = os.path.relpath(shop / "clicks", folder / "run")
    save_run(folder / "run", model, facts, torch.zeros(1), {})
    run = LoadedRun.open(folder / "run")
    manifest = export(run, folder / "export", ExportSettings(n=10))
    assert manifest.popularity == {"weight": 2.0, "half_life": 1.5}
    return run, ExportFolder(folder / "export")


def test_evaluation_ranks_by_the_term(popular):
    run, _ = popular
    split = run.split()
    users, items = run.vectors(split.train)
    assert users.size(1) == items.size(1) == 9
    terms = terms_by_hand(run.data, split.train, 2.0, 1.5, run.model.temperature)
    torch.testing.assert_close(items[:, -1], terms)
    assert (users[:, -1] == 1).all()
    assert run.popularity == LATELY


@pytest.mark.parametrize("exact", [False, True])
def test_lists_of_users_and_of_visitors(popular, exact):
    run, found = popular
    searcher, rows = Recommender(found), torch.tensor([7, 12, 30])
    terms = terms_by_hand(run.data, run.data.graph, 2.0, 1.5, run.model.temperature)
    torch.testing.assert_close(found.items[:, -1], terms)
    top = searcher.for_users(rows, 12, exact=exact)
    scores, items = ranked(found.users.rows(rows), found.items, 12)
    assert torch.equal(top.items, items)
    torch.testing.assert_close(top.scores, scores)
    given = [attributes_of(int(row)) for row in rows] if found.manifest.cold_users else None
    visitors = Visitors(clicked_by(*rows.tolist()), given)
    vectors, _ = searcher._visitor_vectors(visitors)
    assert vectors.size(1) == 8
    with torch.no_grad():
        expected = vectors @ found.items[:, :-1].T + terms
    top = searcher.for_visitors(visitors, 12, exact=exact)
    torch.testing.assert_close(top.scores, expected.topk(12).values)


def test_similar_items_are_so_without_their_popularity(popular):
    _, found = popular
    own = F.normalize(found.items[:, :-1], dim=1)
    known = found.known_items.nonzero()[:3, 0]
    for exact in (False, True):
        top = Recommender(found).similar(known, 5, exact=exact)
        expected = (own[known] @ own.T).scatter(1, known[:, None], -2).topk(5).values
        torch.testing.assert_close(top.scores, expected)


def test_the_parts_of_a_score_and_the_popularity_make_the_score(popular):
    run, found = popular
    terms = terms_by_hand(run.data, run.data.graph, 2.0, 1.5, run.model.temperature)
    user, item = found.users.rows(torch.tensor([7]))[0], found.items[21]
    why = Recommender(found).why(21, 7)
    assert why.popularity == pytest.approx(float(terms[21]), rel=1e-5)
    assert why.score == pytest.approx(float(user @ item), abs=1e-5)
    assert float(why.parts.sum()) + why.rest + why.popularity == pytest.approx(why.score, abs=1e-5)


def test_who_is_not_known_gets_what_is_popular_lately(popular):
    run, found = popular
    counts = LATELY.counts(run.data, run.data.graph).float()
    top = Recommender(found).popular(1, 400)
    assert torch.equal(top.scores[0], counts[top.items[0]])
    assert torch.equal(top.scores[0], counts.sort(descending=True).values)


def test_validation_chooses_the_term_and_the_weights_stay():
    """Items that were clicked long ago, and others now: only a half-life finds the latter."""
    number = torch.arange(400)
    old = number < 300
    items = torch.where(old, number % 3, 3 + number % 3)
    days = torch.where(old, number % 20, 20 + number % 5)
    graph = ClickGraph.from_pairs(number, items, 400, 9, days)
    data, split = ClickData(graph), hold_out(graph, day=23)
    options = ModelOptions(model="lightgcn", channels=4, layers=1)
    settings = TrainSettings(batch_size=64, negatives=4)
    stopping = Stopping(epochs_max=1, n=3, exclude_seen=False)

    def fitted(*tried):
        shared = (Exchange(), torch.device("cpu"))
        return Fitting(data, options, settings, *shared, popularity=tried).refitted(
            split, stopping, graph
        )

    plain = fitted(Popularity())
    assert (plain.popularity, plain.popularity_recalls) == (Popularity(), {})
    chosen = fitted(Popularity(), Popularity(100.0), Popularity(100.0, 0.1))
    assert chosen.popularity == Popularity(100.0, 0.1)
    assert chosen.popularity_recalls["100:0.1"] == 1
    assert chosen.popularity_recalls["100"] == 0
    assert torch.equal(plain.model.embeddings, chosen.model.embeddings)


def test_a_term_in_words_is_that_term_again():
    for one in (Popularity(), LATELY, Popularity(0.12345678, 1e-7), Popularity(3e20)):
        assert parse_popularity(str(one)) == ((one.weight, one.half_life),)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (3, "its popularity should be names with values"),
        ({"foo": 1}, "unknown foo"),
        ({"weight": "a"}, "'a' as weight"),
        ({"weight": 2, "half_life": -1}, "it has 2:-1 as popularity"),
        ({"weight": math.inf}, "inf as weight"),
    ],
)
def test_a_run_of_an_impossible_term_is_refused(facts, words):
    with pytest.raises(InputError, match=f"Expected the settings of a run; .*{words}"):
        Popularity.of_run({"popularity": facts})
