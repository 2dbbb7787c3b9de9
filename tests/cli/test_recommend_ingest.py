"""``drgcn recommend ingest`` and ``info`` as a user meets them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import drgcn.cli.verbs
from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData

from ..recommend.clicks.tables import clicks_of, literal_clicks, random_events, write_csv
from ..recommend.clicks.test_known_sets import small_movielens_1m
from .test_cli import call  # noqa: F401 - a fixture

pytest.importorskip("duckdb")


@pytest.fixture
def shop(call):  # noqa: F811
    """Tables of a small shop in the working folder."""
    events = random_events(0)
    write_csv("clicks.csv", ("who", "what", "when"), events)
    write_csv("people.csv", ("id", "age", "zip"), [(f"u{k}", k, f"0{k % 3}") for k in range(45)])
    words = ("--user", "who", "--item", "what", "--time", "when")
    people = ("--users", "people.csv", "--user-key", "id", "--category", "zip")
    return events, ("recommend", "ingest", "clicks.csv", *words, *people)


def test_tables_become_a_folder(call, shop):  # noqa: F811
    events, words = shop
    code, out, _ = call(*words, "--out", "set", "--memory", "500MB", "--threads", "1")
    assert code == 0
    _, _, first = literal_clicks(events, more_users=[f"u{k}" for k in range(45)])
    data = ClickData.load("set")
    assert clicks_of(data.graph) == first
    assert f"{len(events)} events -> {len(first)} clicks of 45 users on 25 items" in out
    assert "day 0 is 2023-11-14" in out
    assert "users: 1 numbers, 1 categories; 5 have attributes and no click" in out
    assert "written to set" in out
    code, out, _ = call(*words, "--out", "again", "--json", "--day-zero", "2023-11-15")
    assert code == 0
    assert json.loads(out)["days"][0] == -1
    assert ClickData.load("again").graph.day_range[0] == -1
    assert call(*words, "--out", "quiet", "--no-time")[0] == 0
    assert ClickData.load("quiet").graph.days is None


def test_clicks_join_a_folder(call, shop):  # noqa: F811
    _, words = shop
    assert call(*words, "--out", "set")[0] == 0
    write_csv("more.csv", ("who", "what", "when"), [("u1", 999, 1_700_000_000)])
    # Columns have the names that they had at first.
    more = ("recommend", "ingest", "more.csv", "--threads", "1", "--out", "set", "--append")
    code, out, error = call(*more)
    assert code == 0, error
    assert "1 event -> 1 new click, 0 new users, 1 new item" in out
    assert ClickData.load("set").item_ids[25].as_py() == 999
    write_csv("other.csv", ("user", "what", "when"), [("u1", 998, 1_700_000_000)])
    code, _, error = call(*("other.csv" if word == "more.csv" else word for word in more))
    assert code == 2
    assert "'who'" in error
    said = [word.replace("more.csv", "other.csv") for word in more]
    assert call(*said, "--user", "user")[0] == 0
    for wrong in (("--name", "x"), ("--core", "2"), ("--no-time",)):
        code, _, error = call(*more, *wrong)
        assert code == 2
        assert "Expected" in error
    assert call("recommend", "ingest", "gowalla", "--out", "new", "--core", "2")[0] == 2


def test_what_is_in_a_folder(call, shop):  # noqa: F811
    _, words = shop
    assert call(*words, "--out", "set", "--name", "my shop")[0] == 0
    code, out, _ = call("recommend", "info", "set", "--json")
    assert code == 0
    facts = json.loads(out)
    data = ClickData.load("set")
    first = clicks_of(data.graph)
    assert (facts["name"], facts["users"], facts["clicks"]) == ("my shop", 45, len(first))
    assert facts["content_hash"] == data.content_hash
    counts = sorted(sum(user == u for u, _ in first) for user in range(45))
    assert facts["clicks_per_user"]["median"] == counts[22]
    assert facts["clicks_per_user"]["most"] == counts[-1]
    assert facts["clicks_per_user"]["none"] == counts.count(0) == 5
    last = max(first.values())
    assert facts["days"]["clicks_on_the_last"] == list(first.values()).count(last)
    assert facts["user_attributes"]["categories"] == ["zip (3)"]
    assert facts["user_ids"] == "u0 ... u9"
    code, out, _ = call("recommend", "info", "set")
    assert code == 0
    assert "my shop" in out


def test_lines_and_known_sets(call, tmp_path):  # noqa: F811
    Path("lines").mkdir()
    Path("lines/train.txt").write_text("0 0 1\n1 1\n")
    Path("lines/test.txt").write_text("0 2\n")
    code, _, error = call("recommend", "ingest", "lines", "--out", "set")
    assert code == 2
    assert "found 1 that were never seen" in error
    code, out, _ = call("recommend", "ingest", "lines", "--out", "set", "--keep-unseen")
    assert code == 0
    assert "4 clicks of 2 users on 3 items" in out
    assert ClickData.load("set").parts == ("train", "valid", "test")
    small_movielens_1m(tmp_path / "data" / "recommend" / "movielens-1m")
    words = ("recommend", "ingest", "movielens-1m", "--data-root", "data")
    code, out, _ = call(*words, "--out", "ml", "--json")
    assert code == 0
    assert json.loads(out)["content_hash"] == ClickData.load("ml").content_hash
    code, out, _ = call("recommend", "info", "movielens-1m", "--data-root", "data")
    assert code == 0
    assert "clicks in valid: 1" in out
    code, _, error = call(*words, "--out", "x", "--users", "people.csv")
    assert (code, "no tables of attributes" in error) == (2, True)
    code, _, error = call("recommend", "ingest", "gowalla", "--out", "x")
    assert (code, "train_without_valid.txt" in error) == (2, True)


@pytest.mark.slow
def test_bad_input_ends_in_one_sentence_and_code_two(shop):
    _, words = shop
    program = [sys.executable, "-W", "ignore", "-c", "import drgcn.cli; drgcn.cli.main()"]
    done = subprocess.run(
        [*program, *words, "--user", "whom", "--out", "set"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: Expected a column 'whom' in clicks.csv; found 'who', ")
    assert done.stderr.count("\n") == 1
    assert not Path("set").exists()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (("--memory", "some"), "Expected memory such as 4GB"),
        (("--time", "what", "--item", "when", "--time-unit", "date"), "without a readable one"),
    ],
)
def test_bad_settings_are_refused(shop, change, part):
    _, words = shop
    result = CliRunner().invoke(drgcn.cli.verbs.app, [*words, *change, "--out", "set"])
    assert isinstance(result.exception, InputError)
    assert part in str(result.exception)
    assert not Path("set").exists()
