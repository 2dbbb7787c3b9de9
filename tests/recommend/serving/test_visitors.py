"""Lists for visitors, under the rules of a shop, and what speaks for an item."""

import json
import shutil

import pytest
import torch
import torch.nn.functional as F

from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData
from drgcn.recommend.model import ModelOptions, build_model
from drgcn.recommend.serving import (
    ExportFolder,
    ExportSettings,
    ItemRules,
    LoadedRun,
    Recommender,
    Visitors,
    export,
)
from drgcn.recommend.serving.recommender import ItemFilter

from ..retrieval.brute_force import ranked
from .conftest import make_run, shop_data
from .test_recommender import seen_by


def attributes_of(user):
    table = shop_data().users
    numbers = zip(table.numeric_names, table.numeric[user].tolist(), strict=True)
    codes = zip(table.category_names, table.categories[user].tolist(), strict=True)
    known = {name: value for name, value in numbers if value == value}
    return known | {name: str(code) for name, code in codes if code >= 0}


def clicked_by(*users):
    return [torch.tensor(sorted(items)) for items in seen_by(torch.tensor(users))]


def exported_light(shop, folder, **options):
    """An export of a LightGCN, with its weights."""
    data = ClickData.load(shop / "clicks")
    model = build_model(
        data, data.graph, ModelOptions(model="lightgcn", channels=8, layers=2, **options)
    )
    return _exported(shop, folder, data, model)


def _exported(shop, folder, data, model):
    (folder / "clicks").symlink_to(shop / "clicks")
    make_run(folder / "run", data, model)
    run = LoadedRun.open(folder / "run")
    export(run, folder / "export", ExportSettings(n=5))
    return run.model, ExportFolder(folder / "export")


@pytest.fixture(scope="module", params=[False, True], ids=["free", "normalised"])
def light(shop, tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("light")
    return exported_light(shop, folder, normalize=request.param)


def test_sage_folds_a_users_own_clicks_and_attributes_into_its_own_vector(exported):
    users = [7, 12, 30, 55]  # the last has no clicks
    visitors = Visitors(clicked_by(*users), [attributes_of(user) for user in users])
    vectors, known = Recommender(exported)._visitor_vectors(visitors)
    torch.testing.assert_close(vectors, exported.users.rows(torch.tensor(users)))
    assert known.all()
    top = Recommender(exported).for_visitors(visitors, 10, exact=True)
    stored = Recommender(exported).for_users(torch.tensor(users), 10, exact=True)
    assert (top.items == stored.items).float().mean() > 0.9  # near ties may change places
    assert not top.fallback.any()


def test_lightgcn_folds_clicks_into_all_of_a_vector_but_the_users_own_part(light):
    model, found = light
    users = torch.arange(50)
    clicks = Visitors(clicked_by(*users.tolist())).clicks(400)
    plain = found.fold_in._unscaled(clicks, torch.ones(clicks.num_entries), None)
    own = model.embeddings.detach()[users] / 3
    stored = found.users.rows(users)
    whole = F.normalize(plain + own, dim=1) if model.normalize else plain + own
    torch.testing.assert_close(stored, whole)
    vectors = found.fold_in.vectors(clicks, None)
    torch.testing.assert_close(vectors, F.normalize(plain, dim=1) if model.normalize else plain)


def test_clicks_count_once_and_those_the_model_does_not_know_do_not_count(light, exported):
    searcher = Recommender(light[1])
    unknown = int((~light[1].known_items).nonzero()[0, 0])
    once = searcher.for_visitors(Visitors([torch.tensor([3, 8])]), 7)
    again = searcher.for_visitors(Visitors([torch.tensor([8, 3, unknown, 8])]), 7)
    assert torch.equal(once.items, again.items)
    assert exported.known_items.all()  # by their attributes
    nobody = Visitors([torch.tensor([unknown]), torch.empty(0, dtype=torch.int64)])
    top = searcher.for_visitors(nobody, 5, exclude_seen=True)
    assert top.fallback.all()


def popular(counts, left_out, n):
    order = sorted(range(len(counts)), key=lambda item: (-counts[item], item))
    return [item for item in order if item not in left_out][:n]


def test_users_without_clicks_get_the_popular_items_and_it_is_said(light):
    counts = shop_data().graph.by_item.degree.tolist()
    searcher = Recommender(light[1])
    rows = torch.tensor([7, 59])
    top = searcher.for_users(rows, 6, exclude_seen=True)
    assert top.fallback.tolist() == [False, True]
    assert top.items[1].tolist() == popular(counts, set(), 6)
    assert top.scores[1].tolist() == [counts[item] for item in top.items[1].tolist()]
    best = top.items[1, :2]
    top = searcher.for_users(rows, 6, among=ItemFilter(never=best.sort().values))
    assert top.items[1].tolist() == popular(counts, set(best.tolist()), 6)
    some = torch.arange(50, 90)
    top = searcher.for_users(rows, 6, among=ItemFilter(only=some))
    assert top.items[1].tolist() == popular(counts, set(range(400)) - set(some.tolist()), 6)


def test_users_with_attributes_are_known_without_clicks(exported):
    top = Recommender(exported).for_users(torch.tensor([59]), 6)
    assert not top.fallback.any()
    top = Recommender(exported).for_visitors(Visitors(attributes=[{}]), 6)
    assert not top.fallback.any()
    top = Recommender(exported).for_visitors(Visitors([torch.empty(0, dtype=torch.int64)]), 6)
    assert top.fallback.all()


@pytest.mark.parametrize("exact", [False, True])
def test_rules_are_those_of_brute_force(exported, exact):
    searcher, table = Recommender(exported), shop_data().items
    rows = torch.tensor([3, 41, 0])
    seen = seen_by(rows)
    kinds = table.categories[:, table.category_names.index("kind")].tolist()
    allowed = list(range(0, 400, 2))
    denied = [*seen[0], 4, 8, *range(200, 300)]  # some that are seen too

    def ids(items):
        return [10 * item + 7 for item in items]

    for rules, left_out in (
        (ItemRules(deny=ids(denied)), set(denied)),
        (ItemRules(ids(allowed), ids(denied)), {i for i in range(400) if i % 2 or i in denied}),
        (
            ItemRules(categories={"kind": [2, "3"]}),
            {i for i in range(400) if kinds[i] not in (2, 3)},
        ),
        (
            ItemRules(ids(allowed), ids(denied), {"kind": ["1"]}),
            {i for i in range(400) if i % 2 or i in denied or kinds[i] != 1},
        ),
    ):
        among, unknown = rules.rows(exported)
        assert unknown == 0
        top = searcher.for_users(rows, 30, exclude_seen=True, exact=exact, among=among)
        scores, found = ranked(
            exported.users.rows(rows), exported.items, 30, seen=[one | left_out for one in seen]
        )
        if exact:
            assert torch.equal(top.items, found)
        torch.testing.assert_close(top.scores, scores)
    among, _ = ItemRules(allow=[]).rows(exported)
    assert (searcher.for_users(rows, 4, exact=exact, among=among).items == -1).all()


def test_rules_that_cannot_be_followed(exported, light):
    for words, rules in (
        ("ids of items that the export knows; found 1 other: 8", ItemRules(deny=[7, 8])),
        ("among kind, place; found 'colour'", ItemRules(categories={"colour": ["1"]})),
        (r"'kind' that items have \('0', '1', '2', '3'\); found 9", {"kind": ["2", 9]}),
        ("found none", {"kind": []}),
        ("categories that are text", {"kind": ["\ud800"]}),
    ):
        rules = rules if isinstance(rules, ItemRules) else ItemRules(categories=rules)
        with pytest.raises(InputError, match=words):
            rules.rows(exported)
    among, unknown = ItemRules(deny=[7, 8]).rows(exported, skip_unknown=True)
    assert (among.never.tolist(), unknown) == ([0], 1)
    assert ItemRules().rows(exported) == (None, 0)
    # LightGCN knows no attributes, a shop's rules may.
    among, _ = ItemRules(categories={"kind": ["2"]}).rows(light[1])
    assert 0 < len(among.only) < 400


def test_similar_items_are_those_of_largest_cosine(exported, light):
    rows = torch.tensor([5, 17])
    for found in (exported, light[1]):
        unit = F.normalize(found.items, dim=1)
        among = ItemFilter(never=torch.tensor([9]))
        top = Recommender(found).similar(rows, 8, exact=True, among=among)
        scores, items = ranked(unit[rows], unit, 8, seen=[{5, 9}, {17, 9}])
        assert torch.equal(top.items, items)
        torch.testing.assert_close(top.scores, scores)
    unknown = (~light[1].known_items).nonzero()[:1, 0]
    with pytest.raises(InputError, match="that nobody has clicked, the first of them"):
        Recommender(light[1]).similar(unknown, 3)


def test_the_parts_of_a_lightgcn_score(light):
    model, found = light
    clicks = clicked_by(7)[0]
    why = Recommender(found).why(21, 7)
    assert sorted(why.clicked.tolist()) == clicks.tolist()
    assert why.parts.tolist() == sorted(why.parts.tolist(), reverse=True)
    user, item = found.users.rows(torch.tensor([7]))[0], found.items[21]
    assert why.score == pytest.approx(float(user @ item), abs=1e-6)
    # What is left is the user's own embedding.
    own = model.embeddings.detach()[7] / 3
    if model.normalize:
        own = own / found.fold_in.lengths[7]
    assert why.rest == pytest.approx(float(own @ item), abs=1e-6)
    # A visitor has none, so its clicks make all of its score.
    why = Recommender(found).why(21, Visitors([clicks]))
    assert why.rest == pytest.approx(0, abs=1e-6)
    top = Recommender(found).for_visitors(Visitors([clicks]), 400, exact=True)
    assert why.score == pytest.approx(float(top.scores[0][top.items[0] == 21]))


def test_the_parts_of_a_sage_score(exported):
    """Each layer is written out, with the hidden units that are on for this user."""
    clicks, model = clicked_by(7)[0], exported.model
    item = exported.items[21]
    why = Recommender(exported).why(21, 7)
    first, second = (
        layer.folded(layer.gate_vectors(layer.frozen_means()))["user"]
        for layer in model.sage_layers
    )
    inputs, hidden = (table[clicks] for table in exported.fold_in.inputs)
    own = exported.fold_in.own(shop_data().users.rows(torch.tensor([7])), 1)[0]
    with torch.no_grad():
        before = first[0] @ own + first[1] @ inputs.mean(0) + first[2]
        on = (before > 0).float()
        out = second[0] @ (on * before) + second[1] @ hidden.mean(0) + second[2]
        each = (on * (inputs @ first[1].T)) @ second[0].T + hidden @ second[1].T
        parts = each @ item / len(clicks) / out.norm()
        rest = (second[0] @ (on * (first[0] @ own + first[2])) + second[2]) @ item / out.norm()
    order = why.clicked.argsort()
    torch.testing.assert_close(why.parts[order], parts)
    assert why.rest == pytest.approx(float(rest), abs=1e-5)
    visitor = Visitors([clicks], [attributes_of(7)])
    again = Recommender(exported).why(21, visitor)
    assert again.score == pytest.approx(why.score, abs=1e-5)
    torch.testing.assert_close(again.parts, why.parts)


def test_sage_by_ids_alone(shop, tmp_path):
    """Users without attributes have embeddings of their own, which a visitor has not."""
    plain = ClickData.load(shop / "clicks")
    data = ClickData(plain.graph, None, None, plain.user_ids, plain.item_ids)
    (tmp_path / "shop").mkdir()
    data.save(tmp_path / "shop" / "clicks")
    options = ModelOptions(channels=8, fan_outs=(3, 2))
    model = build_model(data, data.graph, options)
    _, found = _exported(tmp_path / "shop", tmp_path, data, model)
    searcher = Recommender(found)
    top = searcher.for_users(torch.tensor([7, 59]), 3)
    assert top.fallback.tolist() == [False, True]
    vector = found.fold_in.vectors(
        Visitors(clicked_by(7)).clicks(400), found.fold_in.own(None, 1, torch.tensor([7]))
    )
    torch.testing.assert_close(vector, found.users.rows(torch.tensor([7])))
    why = searcher.why(21, 7)
    assert float(why.parts.sum()) + why.rest == pytest.approx(why.score)
    assert not searcher.for_visitors(Visitors(clicked_by(7)), 3).fallback.any()
    with pytest.raises(InputError, match="knows them by their clicks alone"):
        searcher.for_visitors(Visitors(clicked_by(7), [{}]), 3)
    with pytest.raises(InputError, match="attributes of items, to choose by category"):
        ItemRules(categories={"kind": ["1"]}).rows(found)


def test_the_hybrid_folds_all_of_a_vector_but_the_users_own_embedding(shop, tmp_path):
    data = ClickData.load(shop / "clicks")
    options = ModelOptions(model="hybrid", channels=8, layers=2, gate="dr")
    model, found = _exported(shop, tmp_path, data, build_model(data, data.graph, options))
    searcher = Recommender(found)
    users = [7, 12, 55]  # the last has no clicks, and no embedding that counts
    visitors = Visitors(clicked_by(*users), [attributes_of(user) for user in users])
    own = found.fold_in.own(found.cold_users.encoded(visitors.attributes), 3)
    clicks = visitors.clicks(400)
    plain = found.fold_in._unscaled(clicks, torch.ones(clicks.num_entries), own)
    embeddings = model.embeddings.detach()[users] / 3 * torch.tensor([[1], [1], [0]])
    stored = found.users.rows(torch.tensor(users))
    torch.testing.assert_close(stored, F.normalize(plain + embeddings, dim=1).detach())
    vectors, _ = searcher._visitor_vectors(visitors)
    torch.testing.assert_close(vectors, F.normalize(plain, dim=1).detach())
    cold = found.cold_users.vectors([attributes_of(55)])
    torch.testing.assert_close(cold[0], stored[2])
    assert not searcher.for_users(torch.tensor([7, 55]), 3).fallback.any()
    why = searcher.why(21, 7)
    rest = (embeddings[0] + own[0].detach()) @ found.items[21] / found.fold_in.lengths[7]
    assert why.rest == pytest.approx(float(rest), abs=1e-6)


def test_visitors_and_users_that_cannot_be_answered(light, exported):
    for words, clicked, attributes in (
        ("found neither", None, None),
        ("at least one visitor", [], None),
        ("found 1 and 2", clicked_by(7, 8), [{}]),
    ):
        with pytest.raises(InputError, match=words):
            Visitors(clicked, attributes)
    with pytest.raises(InputError, match="without clicks on items"):
        Recommender(light[1]).why(21, 59)
    with pytest.raises(InputError, match="Expected one visitor; found 2"):
        Recommender(exported).why(21, Visitors(clicked_by(7, 8)))


def test_an_export_of_an_earlier_version(shop, tmp_path):
    """It answers what it could, and refuses the rest."""
    run = LoadedRun.open(shop / "light")
    export(run, tmp_path / "e", ExportSettings(n=5))
    path = tmp_path / "e" / "manifest.json"
    facts = json.loads(path.read_text())
    del facts["fold_in"], facts["sha256"]
    for name in ("fold_in", "counts", "item_attributes"):
        shutil.rmtree(tmp_path / "e" / name)
    facts["files"] = {
        name: value for name, value in facts["files"].items() if (tmp_path / "e" / name).exists()
    }
    path.write_text(json.dumps(facts))
    found = ExportFolder(tmp_path / "e")
    searcher = Recommender(found)
    top = searcher.for_users(torch.tensor([7, 59]), 5)
    assert top.fallback.tolist() == [False, True]
    assert searcher.similar(torch.tensor([7]), 3).items.shape == (1, 3)
    for ask in (
        lambda: searcher.for_visitors(Visitors(clicked_by(7)), 5),
        lambda: searcher.why(3, 7),
        lambda: ItemRules(categories={"kind": ["1"]}).rows(found),
    ):
        with pytest.raises(InputError, match="xport again"):
            ask()


def test_an_export_without_clicks_knows_who_has_none(shop, tmp_path):
    export(LoadedRun.open(shop / "light"), tmp_path / "e", ExportSettings(n=5, seen=False))
    searcher = Recommender(ExportFolder(tmp_path / "e"))
    assert searcher.for_users(torch.tensor([7, 59]), 5).fallback.tolist() == [False, True]
    assert not searcher.for_visitors(Visitors(clicked_by(7)), 5).fallback.any()
    with pytest.raises(InputError, match="explain by what was seen"):
        searcher.why(3, 7)


def test_the_endpoint_answers_as_the_library_does(shop, exported):
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from .test_http import ask, client_of

    client, searcher = client_of(shop / "export"), Recommender(exported)
    clicked = [10 * item + 7 for item in clicked_by(7)[0].tolist()]
    visitors = Visitors([*clicked_by(7), torch.empty(0)])
    rules = {"deny": [47, 57], "categories": {"kind": ["2", 3]}}
    among, _ = ItemRules(**rules).rows(exported)
    top = searcher.for_visitors(visitors, 5, exclude_seen=True, among=among)
    body = {"clicked": [clicked, []], "n": 5, "exclude_seen": True, **rules}
    for number, found in enumerate(ask(client, **body).json()["recommendations"]):
        assert (found["user"], found["fallback"]) == (None, number == 1)
        assert found["items"] == (10 * top.items[number] + 7).tolist()
        assert found["scores"] == pytest.approx(top.scores[number].tolist())
    answer = ask(client, clicked=[[*clicked, 8]], deny=[9], skip_unknown=True).json()
    assert answer["unknown"] == 2

    answer = client.post("/similar", json={"items": [57, 8], "n": 3, "skip_unknown": True}).json()
    top = searcher.similar(torch.tensor([5]), 3)
    assert answer["similar"][0]["items"] == (10 * top.items[0] + 7).tolist()
    assert (answer["similar"][0]["item"], answer["unknown"]) == (57, 1)

    for who, user in (
        ({"user": "u07"}, 7),
        ({"clicked": clicked, "attributes": {}}, Visitors(clicked_by(7), [{}])),
    ):
        answer = client.post("/why", json={"item": 217, **who}).json()
        why = searcher.why(21, user)
        assert answer["score"] == pytest.approx(why.score)
        assert [one["item"] for one in answer["clicked"]] == (10 * why.clicked + 7).tolist()
        parts = [one["part"] for one in answer["clicked"]]
        assert sum(parts) + answer["rest"] == pytest.approx(answer["score"])

    for path, body, words in (
        ("/similar", {"items": []}, "Expected 1 to 4"),
        ("/similar", {"items": [8]}, "ids of items"),
        ("/similar", {"items": [57], "deny": [7] * 10_001}, "at most 10,000 ids of items"),
        ("/why", {"item": 217, "clicked": [7] * 10_001}, "at most 10,000 ids of items"),
        ("/why", {"item": 217}, "found both or neither"),
        ("/why", {"item": 217, "user": "u07", "clicked": [7]}, "found both or neither"),
        ("/why", {"item": 8, "user": "u07"}, "ids of items"),
        ("/why", {"item": 217, "user": "nobody"}, "ids of users"),
    ):
        answer = client.post(path, json=body)
        assert (answer.status_code, words in answer.json()["detail"]) == (422, True), body
    text = client.get("/metrics").text
    assert 'drgcn_requests_total{path="/why",status="200"} 2' in text
    assert {"/recommend", "/similar", "/why"} <= set(client.get("/openapi.json").json()["paths"])
