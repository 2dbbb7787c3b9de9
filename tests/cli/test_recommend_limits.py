"""Options of ``drgcn recommend`` that lie beyond what the data has."""

import json
import math
import sys

import pytest
import torch

from drgcn import cli
from drgcn.recommend.clicks import ClickData
from drgcn.recommend.clicks.graph import ClickGraph

from ..recommend.clicks.tables import START, write_csv
from ..recommend.serving.conftest import shop_data
from .recommend_chain import TRAINING, done, recommend, refused

pytest.importorskip("faiss")
SMALL = (*TRAINING, "--negatives", 8, "--device", "cpu")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """60 users, 400 items, days 0 to 3; ``clicks`` and ``run``."""
    folder = tmp_path_factory.mktemp("limits")
    shop_data().save(folder / "clicks")
    done("train", folder / "clicks", "--out", folder / "run", *SMALL)
    return folder


@pytest.mark.parametrize(("n", "seen"), [(400, "--keep-seen"), (100_000, "--exclude-seen")])
def test_an_evaluation_of_all_items_finds_all(shop, tmp_path, n, seen):
    words = ("evaluate", shop / "run", "--n", n, seen, "--out", tmp_path / "e.json", "--json")
    code, out, error = recommend(*words)
    assert code == 0
    record = json.loads(out)
    assert record["n"] == 400
    assert ("--n 100,000 is more than there are items: lists of 400" in error) == (n > 400)
    if seen == "--keep-seen":
        assert record["model"]["all"]["recall"]["mean"] == 1
        assert record["chance"]["all"]["recall"] == pytest.approx(1)


def test_several_lengths_and_baselines_beside(shop, tmp_path):
    words = ("evaluate", shop / "run", "--n", 5, "--n", 9, "--baselines", "--ease-gib", 0)
    code, out, error = recommend(*words, "--out", tmp_path / "e.json")
    assert code == 0
    assert "only" in error
    assert "recall@9" in out
    assert "item-kNN" in out
    assert "Expected EASE to fit 0.0 GiB" in out
    record = json.loads((tmp_path / "e.json").read_text())
    assert (record["n"], [*record["other_lengths"]]) == (5, ["9"])
    _, near, ease, _ = record["baselines"]
    assert [*near["lists"]] == ["5", "9"]
    assert near["lists"]["9"]["all"]["map"]["users"] == record["model"]["all"]["map"]["users"]
    assert ease["lists"] == {}


def test_an_index_is_tuned_by_lists_of_all_items(shop, tmp_path):
    words = ("export", shop / "run", "--out", tmp_path / "e", "--n", 100_000)
    index = json.loads(done(*words, "--json"))["index"]
    assert (index["tuning"]["n"], index["tuning"]["recall"]) == (400, 1)
    assert index["recall_without_seen"] == 1


def test_an_index_without_effort_does_not_speak_of_it(shop, tmp_path):
    said = done("export", shop / "run", "--out", tmp_path / "e", "--n", 5)
    assert "index flat: recall@5 1.0000" in said
    sentence = refused("export", shop / "run", "--out", tmp_path / "x", "--index", "foo")
    assert "auto, flat, ivf, hnsw, none; found 'foo'" in sentence


@pytest.mark.parametrize("model", ["sage", "lightgcn"])
def test_a_loss_that_is_not_finite_ends_a_run(shop, tmp_path, model):
    words = ("train", shop / "clicks", "--out", tmp_path / "run", *SMALL, "--model", model)
    for _ in range(2):  # nothing is left that the same command would go on from
        sentence = refused(*words, "--lr", "1e30")
        assert "Expected a finite loss; found" in sentence
        assert "--lr" in sentence
        assert not (tmp_path / "run" / "settings.json").exists()
    done(*words)
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert math.isfinite(record["loss"])


def test_a_day_after_the_last(shop, tmp_path):
    for day in (4, 99):
        sentence = refused("train", shop / "clicks", "--out", tmp_path / "r", *SMALL, "--day", day)
        assert f"--day from 1 to 3, the days of the clicks; found {day}" in sentence
        sentence = refused("export", shop / "run", "--out", tmp_path / "e", "--day", day)
        assert f"--day from 1 to 3, the days of the clicks; found {day}" in sentence
    assert not (tmp_path / "e").exists()


def test_unknown_ids_are_counted(shop, tmp_path):
    done("export", shop / "run", "--out", tmp_path / "e", "--n", 5)
    words = ("query", tmp_path / "e", "--user", "u07", "--user", "x", "--user", "y", "--n", 2)
    assert "skip them (--skip-unknown)" in refused(*words)
    code, out, error = recommend(*words, "--skip-unknown")
    assert (code, out.count("\n")) == (0, 3)
    assert "2 unknown ids left out" in error


def few_users(folder, users):
    """Everybody clicks one item on day 0; on day 1 the first user clicks another."""
    rows = torch.tensor([*range(users), 0])
    cols, days = torch.arange(users + 1), torch.tensor([0] * users + [1])
    graph = ClickGraph.from_pairs(rows, cols, users, 9, days)
    return ClickData(graph, name="few").save(folder)


def test_few_users(tmp_path):
    clicks, run = few_users(tmp_path / "clicks", 3), tmp_path / "run"
    done("train", clicks, "--out", run, "--steps", 2, "--batch-size", 2, "--device", "cpu")
    sentence = refused("export", run, "--out", tmp_path / "e")
    assert "at least 4 users to measure an index with; found 3" in sentence
    assert "--index none" in sentence
    done("export", run, "--out", tmp_path / "e", "--index", "none")
    said = done("evaluate", run, "--n", 9)
    assert "100" in said
    assert "nan" not in said
    assert "±" not in said


def test_a_folder_of_something_else_is_no_place_for_a_run(shop, tmp_path):
    (tmp_path / "letters").mkdir()
    done("train", shop / "clicks", "--out", tmp_path / "letters", *SMALL)  # empty: nothing lost
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    sentence = refused("train", shop / "clicks", "--out", tmp_path / "other", *SMALL)
    assert "such as thesis.tex" in sentence
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["thesis.tex"]
    sentence = refused("evaluate", tmp_path / "nothere")
    assert "there is no such folder" in sentence


def test_attributes_that_no_table_has(tmp_path):
    pytest.importorskip("duckdb")
    clicks = write_csv(tmp_path / "c.csv", ("user", "item", "time"), [("a", 1, START)])
    users = write_csv(tmp_path / "u.csv", ("user", "age", "zip"), [("a", 3, "04")])
    words = ("ingest", clicks, "--users", users, "--out", tmp_path / "set")
    for option in ("--numeric", "--category", "--ignore"):
        sentence = refused(*words, option, "nope")
        assert f"{option} to name an attribute of 'age', 'zip'; found 'nope'" in sentence
    assert "no table has any" in refused(
        "ingest", clicks, "--out", tmp_path / "set", "--numeric", "age"
    )
    assert not (tmp_path / "set").exists()
    done(*words, "--numeric", "age", "--category", "zip")
    assert "one of gowalla, " in refused("ingest", "nosuchset", "--out", tmp_path / "x")


def test_clicks_before_day_zero_are_said(tmp_path):
    pytest.importorskip("duckdb")
    rows = [("a", 1, "2024-05-31"), ("b", 2, "2024-06-02")]
    clicks = write_csv(tmp_path / "c.csv", ("user", "item", "time"), rows)
    words = ("ingest", clicks, "--day-zero")
    said = done(*words, "2024-06-01", "--out", tmp_path / "late")
    assert "warning: there are clicks before day 0, the first on day -1" in said
    assert "warning" not in done(*words, "2024-05-31", "--out", tmp_path / "set")


@pytest.mark.parametrize("wrong", [("--draw", "1e400"), ("--logq", "nothing/at/all")])
def test_a_training_that_is_refused_leaves_no_folder(shop, tmp_path, monkeypatch, wrong):
    monkeypatch.setattr(sys, "argv", ["drgcn", "recommend", "train", str(shop / "clicks")])
    sys.argv += [*map(str, SMALL), "--out", str(tmp_path / "new" / "run"), *wrong]
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert list(tmp_path.iterdir()) == []
