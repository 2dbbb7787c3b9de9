"""From a table of clicks to a server, and on with new clicks: ``train --from``, without a stop."""

import json
import random
import shutil
import threading
import warnings

import pytest
import torch

from drgcn.recommend.clicks import ClickData
from drgcn.recommend.model.run_folder import load_run
from drgcn.recommend.serving import ExportFolder

from .recommend_chain import done, refused

pytest.importorskip("duckdb")

QUICK = ("--channels", 8, "--batch-size", 64, "--lr", 0.01, "--threads", 1, "--device", "cpu")
FEW = (*QUICK, "--epochs-max", 2, "--patience", 1)


def write_tables(folder, first, last, users, items):
    """Clicks of some days, and tables of users and items with genres, as CSV."""
    chance = random.Random(first)
    clicks = {
        (f"u{chance.randrange(users)}", f"i{int(items * chance.random() ** 2)}", day)
        for day in range(first, last + 1)
        for _ in range(60)
    }
    rows = ["user,item,time", *(f"{u},{i},2024-01-{day:02d}" for u, i, day in sorted(clicks))]
    (folder / "clicks.csv").write_text("\n".join(rows) + "\n")
    who = [f"u{number},{'abcd'[number % (3 + (users > 30))]},{number}" for number in range(users)]
    (folder / "users.csv").write_text("\n".join(["user,town,age", *who]) + "\n")
    what = [f"i{number},{'war|drama' if number % 3 else 'war'}" for number in range(items)]
    (folder / "items.csv").write_text("\n".join(["item,genres", *what]) + "\n")


def ingest(folder, *more):
    tables = ("--users", folder / "users.csv", "--items", folder / "items.csv")
    words = ("--several", "genres", "--threads", 1, *more)
    return done("ingest", folder / "clicks.csv", "--out", folder / "clicks", *tables, *words)


@pytest.fixture(scope="module")
def first_shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    write_tables(folder, 1, 8, 30, 20)
    ingest(folder)
    done("train", folder / "clicks", "--out", folder / "run", *FEW)
    return folder


@pytest.fixture
def shop(first_shop, tmp_path):
    """A folder of clicks and a run on them; the last day was held back."""
    shutil.copytree(first_shop, tmp_path, dirs_exist_ok=True)
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace(str(first_shop), str(tmp_path)))
    return tmp_path


def grow(folder):
    write_tables(folder, 9, 14, 36, 24)
    return ingest(folder, "--append")


def test_new_clicks_reach_the_server_without_a_stop(shop):
    """Every request is answered, before, while and after the export changes."""
    pytest.importorskip("faiss")
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from drgcn.recommend.serving.http import build_app
    from drgcn.recommend.serving.server import HttpLimits, ServedExport

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # starlette would rather have another client
        from fastapi.testclient import TestClient
    export = shop / "export"
    done("export", shop / "run", "--out", export, "--n", 5)
    served = ServedExport(export)
    client = TestClient(build_app(served, HttpLimits(n=20, batch=4)))
    statuses, ended = [], threading.Event()

    def keep_asking():
        while not ended.is_set():
            answer = client.post("/recommend", json={"users": ["u7"], "n": 5})
            statuses.append(answer.status_code)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        before = client.get("/healthz").json()
        assert client.post("/recommend", json={"users": ["u35"]}).status_code == 422
        assert "6 new users, 4 new items" in grow(shop)
        words = done("train", "--from", shop / "run", "--out", shop / "next", *FEW)
        assert "on all clicks, after validation" in words
        assert "is there already" in refused("export", shop / "next", "--out", export)
        done("export", shop / "next", "--out", export, "--n", 5, "--replace")
        assert served.look()
        asked = len(statuses)
        while len(statuses) < asked + 3:
            assert asking.is_alive()
    finally:
        ended.set()
        asking.join()
    assert set(statuses) == {200}
    after = client.get("/healthz").json()
    assert (before["users"], after["users"]) == (30, 36)
    answer = client.post(
        "/recommend", json={"users": ["u35"], "categories": {"genres": ["drama"]}}
    )
    items = answer.json()["recommendations"][0]["items"]
    assert len(items) == 16
    assert all(int(item[1:]) % 3 for item in items)
    rows = json.loads(done("query", export, "--user", "u35", "--n", 3, "--json"))["rows"]
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert json.loads(done("evaluate", shop / "next", "--n", 5, "--json"))["n"] == 5


@pytest.mark.parametrize("model", ["hybrid", "lightgcn", "sage"])
def test_what_is_known_keeps_its_weights(shop, model, monkeypatch):
    """With a learning rate too small to change a number, rows are those of the run or fresh."""
    more = ("--model", model, "--epochs", 1, *QUICK)
    more += ("--user-ids", 4, "--item-ids", 4, "--fan-outs", "3,2") if model == "sage" else ()
    done("train", shop / "clicks", "--out", shop / "old", *more, "--seed", 3)
    before, clicks = load_run(shop / "old")[0], ClickData.load(shop / "clicks")
    grow(shop)
    still = ("--lr", 1e-30, "--weight-decay", 0, "--threads", 1, "--device", "cpu")
    words = ("--epochs", 0.1, *still, "--channels", 8)
    done("train", "--from", shop / "old", "--out", shop / "new", *words)
    after, grown = load_run(shop / "new")[0], ClickData.load(shop / "clicks")
    assert grown.users.category_sizes == (4,) > clicks.users.category_sizes
    done("train", shop / "clicks", "--out", shop / "fresh", *more, *still, "--seed", 3)
    fresh = load_run(shop / "fresh")[0].state_dict()
    old, new = before.state_dict(), after.state_dict()
    kept = 0
    for name, value in new.items():
        if name.endswith("embeddings"):
            users, items = value.split([36, 24])
            expected = [part.clone() for part in fresh[name].split([36, 24])]
            expected[0][:30], expected[1][:20] = old[name].split([30, 20])
            torch.testing.assert_close(users, expected[0])
            torch.testing.assert_close(items, expected[1])
            kept += 1
        elif name.endswith("user.table"):  # three towns and the missing one, then four
            expected = fresh[name].clone()
            expected[:3], expected[4] = old[name][:3], old[name][3]
            torch.testing.assert_close(value, expected)
            kept += 1
        elif name.endswith("id_table"):
            count = len(old[name]) - 1
            torch.testing.assert_close(value[:count], old[name][:count])
            torch.testing.assert_close(value[count:], fresh[name][count:])
            kept += 1
        elif "mean" not in name.split(".")[-1].split("_")[0]:
            torch.testing.assert_close(value, old[name])
    assert kept == {"hybrid": 2, "lightgcn": 1, "sage": 3}[model]
    if model != "lightgcn":
        one, two = (found.encoder("user").summary for found in (before, after))
        assert (one.mean, one.deviation) == (two.mean, two.deviation)


def test_a_run_that_goes_on_is_made_again(shop):
    grow(shop)
    for out in ("one", "two"):
        source = (
            ("--from", shop / "run") if out == "one" else ("--config", shop / "one/config.toml")
        )
        more = () if out == "two" else ("--epochs-max", 1)
        done("train", *source, *more, "--out", shop / out, "--threads", 1, "--device", "cpu")
    one, two = (shop / name / "weights.safetensors" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes() != (shop / "run" / one.name).read_bytes()
    record = json.loads((shop / "one" / "record.json").read_text())
    assert (
        record["from"]["weights"]
        == json.loads((shop / "run/settings.json").read_text())["weights_sha256"]
    )
    assert load_run(shop / "one")[1]["training"]["last_day"] == 12


def test_what_cannot_go_on_is_refused_and_leaves_nothing(shop):
    start = ("train", "--from", shop / "run", "--out", shop / "no", *QUICK)
    assert "Expected clicks after day 6" in refused(*start)
    assert "lie after day 6" in refused(*start, "--day", 5, "--epochs", 1)
    done("train", "--from", shop / "run", "--out", shop / "same", *QUICK, "--epochs", 1)
    grow(shop)
    assert "Expected gate as in the run" in refused(*start, "--gate", "dr")
    assert "Expected out_channels as in the run" in refused(*start, "--channels", 16)
    assert "found clicks of day 4" in refused(*start, "--split", "days:5")
    (shop / "other").mkdir()
    write_tables(shop / "other", 3, 12, 40, 30)
    ingest(shop / "other")
    words = ("train", shop / "other" / "clicks", *start[1:])
    assert "joined them (`ingest --append`); found another set" in refused(*words)
    (shop / "run" / "config.toml").unlink()
    words = ("train", shop / "clicks", *start[1:], "--model", "lightgcn")
    assert "Expected the kind of model that the run has" in refused(*words)
    assert "`drgcn recommend train` wrote" in refused(*start[:2], shop / "clicks", *start[3:])
    assert not (shop / "no").exists()


def test_clicks_that_count_by_their_age(shop):
    words = ("train", shop / "clicks", *QUICK, "--epochs-max", 1, "--split", "days:2")
    done(*words, "--out", shop / "none", "--half-life", "none")
    done(*words, "--out", shop / "plain")
    said = done(*words, "--out", shop / "aged", "--half-life", "auto")
    assert "by lists of popular items" in said
    record = json.loads((shop / "aged" / "record.json").read_text())
    tried = record["half_life"]["popular_recall"]
    best = record["half_life"]["chosen"]
    assert tried[best] == max(tried.values())
    assert list(tried) == ["none", "3", "10", "30", "100"]
    weights = [(shop / name / "weights.safetensors").read_bytes() for name in ("none", "plain")]
    assert weights[0] == weights[1]
    done(*words, "--out", shop / "three", "--half-life", 3)
    assert (shop / "three" / "weights.safetensors").read_bytes() != weights[0]
    assert load_run(shop / "three")[1]["training"]["half_life"] == 3
    no = ("--out", shop / "no")
    assert "as days above zero" in refused(*words, *no, "--half-life", "-1")
    assert "one --half-life with --epochs" in refused(
        "train", shop / "clicks", *QUICK, *no, "--half-life", "3,10", "--epochs", 1
    )
    (shop / "timeless.csv").write_text(
        "user,item\n" + "\n".join(f"{k},{k % 7}" for k in range(50))
    )
    done("ingest", shop / "timeless.csv", "--no-time", "--out", shop / "timeless", "--threads", 1)
    words = ("train", shop / "timeless", *QUICK, *no, "--half-life", 3, "--epochs", 1)
    assert "Expected clicks with days for a half-life" in refused(*words)
    assert not (shop / "no").exists()


def test_the_popularity_of_items_in_every_score(shop, tmp_path):
    words = ("train", shop / "clicks", *QUICK, "--epochs-max", 1, "--split", "days:2")
    said = done(*words, "--out", shop / "auto")
    record = json.loads((shop / "auto" / "record.json").read_text())["popularity"]
    assert f"weight of popularity, by validation: {record['chosen']}, Recall" in said
    assert record["recall"][record["chosen"]] == max(record["recall"].values())
    assert list(record["recall"])[:3] == ["0", "0.5", "1"]
    assert len(record["recall"]) == 26
    done(*words, "--out", shop / "one", "--popularity", "2:3")
    done(
        "train", "--config", shop / "one" / "config.toml", "--out", shop / "same", shop / "clicks"
    )
    done(*words, "--out", shop / "none", "--popularity", 0)
    weights = {
        (shop / name / "weights.safetensors").read_bytes()
        for name in ("auto", "one", "same", "none")
    }
    assert len(weights) == 1
    facts = [load_run(shop / name)[1]["training"]["popularity"] for name in ("one", "same")]
    assert facts == [{"weight": 2.0, "half_life": 3.0}] * 2
    assert load_run(shop / "none")[1]["training"]["popularity"] is None
    found = json.loads(done("evaluate", shop / "one", "--n", 5, "--baselines", "--json"))
    names = [one["name"] for one in found["baselines"]]
    assert names == ["popular lately", "item-kNN", "EASE", "iALS"]
    assert found["baselines"][0]["settings"]["half_life"] in (1, 3, 10, 30, 100)
    more = ("--from", shop / "one", "--out", shop / "on", "--all-days", "--steps", 2)
    done("train", shop / "clicks", *more)
    assert load_run(shop / "on")[1]["training"]["popularity"] == facts[0]
    no = ("--out", shop / "no")
    for wrong in ("-1", "2:0", "2:", "x", "1:-3"):
        assert "as a weight from 0 on" in refused(*words, *no, "--popularity", wrong)
    some = ("train", shop / "clicks", *QUICK, *no, "--steps", 1, "--popularity")
    assert "one --popularity with --epochs" in refused(*some, "auto")
    assert not (shop / "no").exists()


def test_only_an_export_is_replaced(shop):
    pytest.importorskip("faiss")
    (shop / "mine").mkdir()
    (shop / "mine" / "letter.txt").write_text("dear")
    sentence = refused("export", shop / "run", "--out", shop / "mine", "--replace", "--n", 5)
    assert "`drgcn recommend export` wrote" in sentence
    assert (shop / "mine" / "letter.txt").read_text() == "dear"
    done("export", shop / "run", "--out", shop / "export", "--replace", "--n", 5)
    found = ExportFolder(shop / "export").item_categories
    assert found.numeric_names == ("genres: drama", "genres: war")
    said = refused("query", shop / "export", "--user", "u1", "--category", "genres=peace")
    assert "values of 'genres' that items have ('drama', 'war'); found 'peace'" in said
    assert "among genres; found 'age'" in refused(
        "query", shop / "export", "--user", "u1", "--category", "age=3"
    )
