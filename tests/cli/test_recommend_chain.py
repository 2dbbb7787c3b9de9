"""``drgcn recommend`` from generate to query, and what evaluate and export refuse."""

import json
import re
import shlex

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

from drgcn.recommend.clicks import ClickData
from drgcn.recommend.model import embed_all, load_run
from drgcn.recommend.retrieval import exact_top
from drgcn.recommend.serving import ExportFolder, ItemRules, Recommender, Visitors

from ..recommend.serving.conftest import shop_data
from .recommend_chain import TRAINING, done, recommend, refused

pytest.importorskip("faiss")


def test_the_evaluation_is_that_of_all_pairs(chain):
    """Recall by looking at every pair of a user and an item, with Python's sets."""
    folder, said = chain
    model, facts = load_run(folder / "run")
    day = facts["training"]["day"]
    graph = ClickData.load(folder / "clicks").graph
    users, items = embed_all(model, ClickData.load(folder / "clicks"), graph.until(day))
    targets, before = graph.on(day).by_user, graph.until(day).by_user
    values = {"warm": [], "cold": []}
    for user in (targets.degree > 0).nonzero()[:, 0].tolist():
        wanted = set(targets.col[targets.rowptr[user] : targets.rowptr[user + 1]].tolist())
        scores = (users[user].double() * items.double()).sum(dim=1)
        best = scores.sort(descending=True, stable=True).indices[:20].tolist()
        group = "warm" if before.rowptr[user + 1] > before.rowptr[user] else "cold"
        values[group].append(len(wanted & set(best)) / len(wanted))
    found = said["evaluate"]["model"]
    for group, shares in values.items():
        assert found[group]["recall"]["users"] == len(shares) > 20
        assert found[group]["recall"]["mean"] == pytest.approx(sum(shares) / len(shares), abs=2e-3)
    both = values["warm"] + values["cold"]
    assert found["all"]["recall"]["mean"] == pytest.approx(sum(both) / len(both), abs=2e-3)


def test_the_record_of_an_evaluation(chain, tmp_path):
    folder, said = chain
    path = folder / "run" / "evaluation-day-12-top-20-keep-seen.json"
    record = json.loads(path.read_text())
    assert record == said["evaluate"]
    assert record["data"]["content_hash"] == ClickData.load(folder / "clicks").content_hash
    assert record["environment"]["torch"] == torch.__version__
    assert set(record["seconds"]) == {"load", "embed", "rank"}
    assert 0 < record["chance"]["all"]["recall"] < record["popularity"]["all"]["recall"]["mean"]
    manifest = json.loads((folder / "export" / "manifest.json").read_text())
    assert manifest["model"]["sha256"] == record["model_sha256"]
    out = done("evaluate", folder / "run", "--exclude-seen", "--out", tmp_path / "a" / "e.json")
    assert "exclude seen" in out
    assert "popular" in out
    record = json.loads((tmp_path / "a" / "e.json").read_text())
    assert (record["n"], record["exclude_seen"]) == (50, True)
    mean = {one: record[one]["all"]["recall"]["mean"] for one in ("model", "popularity")}
    over = 100 * (mean["model"] - mean["popularity"])
    assert f"recall@50 of the model over that of popular {over:+.2f} [" in out
    assert ("the model is below popular" in out) is (over < 0)


def test_items_never_seen_are_counted_and_ids_come_back(tmp_path):
    data = shop_data()
    clicks, run, export = (tmp_path / name for name in ("clicks", "run", "export"))
    data.save(clicks)
    done("train", clicks, "--out", run, *TRAINING, "--negatives", 8, "--device", "cpu")
    record = json.loads(done("evaluate", run, "--n", 10, "--json"))
    before, after = (graph.by_user.col for graph in (data.graph.until(3), data.graph.on(3)))
    unseen = set(after.tolist()) - set(before.tolist())
    assert record["unseen_target_items"] == len(unseen) > 0
    said = done("evaluate", run, "--n", 10)
    assert f"{len(unseen)} of {len(set(after.tolist()))} items to be found have no click" in said
    done("export", run, "--out", export, "--n", 10)
    # Items that nobody has clicked have vectors too: a list of all items holds them.
    out = tmp_path / "recs.parquet"
    done("query", export, "--user", "u07", "--n", 400, "--exact", "--out", out)
    table = pq.read_table(out)
    assert set(table["user"].to_pylist()) == {"u07"}
    assert sorted(table["item"].to_pylist()) == [10 * number + 7 for number in range(400)]
    assert "found 1 other: '7'" in refused("query", export, "--user", "7")


def test_evaluations_that_are_refused(chain, tmp_path):
    folder, _ = chain
    run = folder / "run"
    assert "Expected clicks on day 99; found none" in refused("evaluate", run, "--day", 99)
    assert "whose clicks the run has learnt" in refused("evaluate", run, "--day", 3)
    sentence = refused("evaluate", tmp_path)
    assert "Expected a folder that `drgcn recommend train` wrote" in sentence
    done("generate", "--fraction", "0.0001", "--seed", 1, "--out", tmp_path / "other")
    sentence = refused("evaluate", run, "--data", tmp_path / "other")
    assert "Expected the clicks that the run was trained on" in sentence


def test_the_index_reaches_the_recall_it_was_asked_for(chain):
    folder, said = chain
    tuning = said["export"]["index"]["tuning"]
    assert (tuning["kind"], tuning["target"], tuning["reached"]) == ("ivf", 0.9, True)
    found = ExportFolder(folder / "export")
    vectors = found.users.vectors()
    exact = exact_top(vectors, found.items, 20).items
    top = found.index.search(vectors, 20).items
    share = float((exact[:, :, None] == top[:, None, :]).any(2).double().mean())
    error = tuning["standard_error"]
    assert share >= 0.9 - 2 * error
    assert abs(share - tuning["recall"]) < 5 * error + 0.01


def test_an_export_does_not_overwrite(chain, tmp_path):
    folder, _ = chain
    sentence = refused("export", folder / "run", "--out", folder / "export")
    assert "is there already" in sentence
    assert "float16; found 'int8'" in refused(
        "export", folder / "run", "--out", tmp_path / "e", "--dtype", "int8"
    )
    sentence = refused("export", folder / "run", "--out", tmp_path / "e", "--day", 0)
    assert "Expected clicks before day 0; found none" in sentence
    assert not (tmp_path / "e").exists()


@pytest.mark.parametrize("seen", ["--exclude-seen", "--keep-seen"])
def test_exact_lists_are_those_of_exact_top(chain, tmp_path, seen):
    folder, _ = chain
    ids = [5, 3000, 17, 5]
    pq.write_table(pa.table({"user": ids}), tmp_path / "ids.parquet")
    words = (folder / "export", "--users", tmp_path / "ids.parquet", "--n", 8, "--exact", seen)
    done("query", *words, "--out", tmp_path / "recs.parquet", "--device", "cpu")
    model, _ = load_run(folder / "run")
    data = ClickData.load(folder / "clicks")
    users, items = embed_all(model, data, data.graph)
    rows = torch.tensor(ids)
    exclude = {"exclude": data.graph.by_user, "exclude_rows": rows}
    expected = exact_top(users[rows], items, 8, **(exclude if seen == "--exclude-seen" else {}))
    table = pq.read_table(tmp_path / "recs.parquet")
    assert table["user"].to_pylist() == [user for user in ids for _ in range(8)]
    assert table["rank"].to_pylist() == list(range(1, 9)) * 4
    assert table["item"].to_pylist() == expected.items.flatten().tolist()
    torch.testing.assert_close(torch.tensor(table["score"].to_pylist()), expected.scores.flatten())


def test_all_users_and_other_forms(chain, tmp_path):
    folder, said = chain
    out = tmp_path / "new" / "recs.csv"
    words = (folder / "export", "--all-users", "--n", 3, "--out", out, "--json")
    found = json.loads(done("query", *words))
    number = said["generate"]["users"]
    assert (found["users"], found["rows"], found["unknown"]) == (number, 3 * number, 0)
    table = pyarrow.csv.read_csv(out)
    assert table.column_names == ["user", "rank", "item", "score", "fallback"]
    assert table.num_rows == 3 * number
    assert [path.name for path in out.parent.iterdir()] == ["recs.csv"]
    shown = done("query", folder / "export", "--user", 7, "--user", 9, "--n", 2).splitlines()
    assert [line.split("\t")[:2] for line in shown] == [
        ["user", "rank"], ["7", "1"], ["7", "2"], ["9", "1"], ["9", "2"],
    ]  # fmt: skip
    rows = json.loads(done("query", folder / "export", "--user", 7, "--n", 2, "--json"))["rows"]
    assert [row["item"] for row in rows] == [int(line.split("\t")[2]) for line in shown[1:3]]


def test_queries_that_are_refused(chain, tmp_path):
    folder, _ = chain
    export = folder / "export"
    (tmp_path / "ids.csv").write_text("who,when\n7,1\n99999,2\nx,3\n")
    words = ("query", export, "--users", tmp_path / "ids.csv")
    assert "Expected a column 'user'" in refused(*words)
    assert "Expected a column 'whom'" in refused(*words, "--column", "whom")
    sentence = refused(*words, "--column", "who")
    assert "found 2 others: '99999', 'x'" in sentence
    out = tmp_path / "recs.parquet"
    said = done(*words, "--column", "who", "--skip-unknown", "--n", 4, "--out", out)
    assert "1 lists, 4 rows; 2 unknown ids left out" in said
    assert "one of --users, --user, --all-users" in refused("query", export)
    assert "Expected --out" in refused("query", export, "--all-users")
    assert "end in .parquet or .csv" in refused(
        "query", export, "--user", 7, "--out", tmp_path / "recs.txt"
    )
    whole = out.read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-30])
    sentence = refused("query", export, "--users", tmp_path / "cut.parquet")
    assert "cut off or damaged" in sentence
    assert "cut off" in refused("query", export, "--users", tmp_path / "none.parquet")
    (tmp_path / "empty.csv").write_text("user\n")
    assert "at least one id" in refused("query", export, "--users", tmp_path / "empty.csv")
    (tmp_path / "holes.csv").write_text('user,x\n7,1\n"",2\n')
    assert "1 of 2 have none" in refused("query", export, "--users", tmp_path / "holes.csv")
    assert "found .json" in refused("query", export, "--users", tmp_path / "a.json").replace(
        "a.json", ".json"
    )
    assert "`drgcn recommend export` wrote" in refused("query", tmp_path, "--user", 7)


def test_an_export_that_does_not_match_its_manifest(chain, tmp_path):
    import shutil

    folder, _ = chain
    for name in ("index.faiss", "users.parquet"):
        copy = shutil.copytree(folder / "export", tmp_path / name)
        whole = (copy / name).read_bytes()
        (copy / name).write_bytes(whole[: len(whole) // 2])
        sentence = refused("query", copy, "--user", 7, "--out", tmp_path / "r.parquet")
        assert f"{name} with the" in sentence
        assert "SHA-256" in sentence
        assert "xport" in sentence
    assert not (tmp_path / "r.parquet").exists()


def test_without_faiss_there_is_a_clear_line_and_a_way(chain, tmp_path, monkeypatch):
    import sys

    folder, _ = chain
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert "pip install '.[recommend]'" in refused("query", folder / "export", "--user", 7)
    done("query", folder / "export", "--user", 7, "--exact")
    assert "pip install '.[recommend]'" in refused(
        "export", folder / "run", "--out", tmp_path / "e"
    )
    done("export", folder / "run", "--out", tmp_path / "e", "--index", "none")
    assert recommend("query", tmp_path / "e", "--user", 7, "--n", 3)[0] == 0


def page_commands(root):
    """The commands of the section about visitors of docs/recommend.md."""
    page = (root / "docs" / "recommend.md").read_text("utf-8")
    section = page.partition("## Answers for new visitors\n")[2].partition("\n## ")[0]
    return [shlex.split(text) for text in re.findall(r"```sh\n(.*?)\n```", section, re.DOTALL)]


def test_the_page_about_visitors(chain, request):
    """Its queries and requests are answered as the library answers them."""
    folder, _ = chain
    found = ExportFolder(folder / "export")
    searcher, visitor = Recommender(found), Visitors([torch.tensor([3, 14, 15])])
    styles = {"style": ["1", "2"]}
    among, _ = ItemRules(deny=[9, 10], categories=styles).rows(found)
    both = Visitors(visitor.clicked, [{"interest": "2", "number_0": 0.3}])
    expected = (
        searcher.for_visitors(visitor, 5, exclude_seen=True),
        searcher.for_visitors(both, 5),
        searcher.for_visitors(visitor, 5, among=among),
        searcher.similar(torch.tensor([14]), 5),
    )
    commands = page_commands(request.config.rootpath)
    queries = [
        words[4:] for words in commands if words[:4] == ["drgcn", "recommend", "query", "export"]
    ]
    shown = [done("query", folder / "export", *words).splitlines() for words in queries]
    for lines, top in zip(shown, expected, strict=False):
        assert [int(line.split("\t")[2]) for line in lines[1:]] == top.items[0].tolist()
    why = searcher.why(20, visitor)
    names, parts = zip(*(line.split("\t") for line in shown[4][1:]), strict=True)
    assert names == (*map(str, why.clicked.tolist()), "(the user)", "(score)")
    assert sum(map(float, parts[:-1])) == pytest.approx(float(parts[-1]), abs=1e-5)
    assert len(queries) == 5
    asked = [(words[2].partition("/")[2], words[-1]) for words in commands if words[0] == "curl"]
    assert [path for path, _ in asked] == ["recommend", "similar", "why"]
    pytest.importorskip("fastapi")
    from drgcn.recommend.serving import requests
    from drgcn.recommend.serving.server import HttpLimits

    kinds = (requests.RecommendRequest, requests.SimilarRequest, requests.WhyRequest)
    lists, similar, reason = (
        kind.model_validate_json(body).answer(searcher, HttpLimits())
        for kind, (_, body) in zip(kinds, asked, strict=True)
    )
    assert [one.fallback for one in lists.recommendations] == [False, True]
    assert similar.similar[0].items == expected[3].items[0, :3].tolist()
    assert [one.item for one in reason.clicked] == why.clicked.tolist()


def test_other_queries_of_visitors(chain):
    folder, _ = chain
    words = ("query", folder / "export", "--clicked", "3,14", "--clicked", 15, "--json")
    rows = json.loads(done(*words, "--allow", "5,6,7", "--n", 4))["rows"]
    assert {row["item"] for row in rows} == {5, 6, 7}
    assert {(row["user"], row["fallback"]) for row in rows} == {(None, False)}
    answer = json.loads(done("query", folder / "export", "--user", 7, "--why", 20, "--json"))
    why = Recommender(ExportFolder(folder / "export")).why(20, 7)
    assert [row["item"] for row in answer["clicked"]] == why.clicked.tolist()
    assert (answer["item"], answer["score"]) == (20, pytest.approx(why.score))
    for sentence, given in (
        ("one of --users", ("--clicked", 3, "--user", 7)),
        ("found 1 other: 'x'", ("--clicked", "3,x")),
        ("found 1 other: 'x, \"y'", ("--clicked", '3,"x, ""y"')),
        ("Expected ids written a,b,c", ("--clicked", "3\n4")),
        ("as name=value; found 'style'", ("--user", 7, "--category", "style")),
        ("Expected a number for 'number_0'; found 'tall'", ("--attribute", "number_0=tall")),
        ("with what a visitor clicked", ("--similar", 5, "--exclude-seen")),
        ("Expected one --user", ("--all-users", "--why", 5)),
    ):
        assert sentence in refused("query", folder / "export", *given)
