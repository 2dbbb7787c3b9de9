"""The command line, and tables that go through ``ingest`` and come back."""

import json

import pytest
import torch
from pyarrow import parquet
from typer.testing import CliRunner

from drgcn.cli.verbs import app
from drgcn.errors import InputError
from drgcn.recommend.clicks import ClickData
from drgcn.recommend.synthetic import checksum, generate_astar
from drgcn.recommend.synthetic.astar import write_tables

FRACTION = 0.0005


@pytest.fixture(scope="module")
def data():
    return generate_astar(FRACTION, seed=4)


def generate(*words):
    return CliRunner().invoke(app, ["recommend", "generate", *map(str, words)])


def test_a_folder_that_is_read_back(tmp_path, data):
    out = tmp_path / "clicks"
    done = generate("--out", out, "--fraction", FRACTION, "--seed", 4, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["checksum"] == checksum(data) == checksum(ClickData.load(out))
    assert said["users"] == data.graph.num_users
    assert "synthetic" in said["name"]


def test_words(tmp_path, data):
    done = generate("--out", tmp_path / "clicks", "--fraction", FRACTION, "--seed", 4)
    assert "64,917 synthetic clicks of 17,623 users on 3,169 items" in done.stdout
    assert checksum(data) in done.stdout


def test_a_folder_in_the_way_is_left_alone(tmp_path):
    done = generate("--out", tmp_path, "--fraction", FRACTION)
    assert isinstance(done.exception, InputError)
    assert list(tmp_path.iterdir()) == []


def test_tables_hold_what_was_drawn(tmp_path, data):
    write_tables(data, tmp_path / "tables")
    clicks = parquet.read_table(tmp_path / "tables" / "clicks.parquet")
    assert clicks["item"].to_numpy().tolist() == data.graph.by_user.col.tolist()
    degree = torch.bincount(torch.tensor(clicks["user"].to_numpy()))
    assert torch.equal(degree, data.graph.by_user.degree)
    day = torch.tensor(clicks["time"].to_numpy()) // 86_400
    assert torch.equal((day - day.min()).short(), data.graph.days)
    users = parquet.read_table(tmp_path / "tables" / "users.parquet")
    assert users.num_columns == 1 + 27
    assert users["number_3"].null_count == int(data.users.numeric[:, 3].isnan().sum()) > 0
    assert users["interest"].null_count == int((data.users.categories[:, 0] < 0).sum()) > 0
    items = parquet.read_table(tmp_path / "tables" / "items.parquet")
    assert items.num_columns == 1 + 33


def test_ingest_gives_the_clicks_back(tmp_path, data):
    pytest.importorskip("duckdb")
    done = generate("--out", tmp_path / "t", "--fraction", FRACTION, "--seed", 4, "--tables")
    assert done.exit_code == 0, done.output
    tables = tmp_path / "t"
    words = ["recommend", "ingest", tables / "clicks.parquet", "--out", tmp_path / "clicks"]
    words += ["--users", tables / "users.parquet", "--items", tables / "items.parquet"]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    again = ClickData.load(tmp_path / "clicks")
    assert again.graph.num_clicks == data.graph.num_clicks
    assert torch.equal(again.graph.days, data.graph.days)
    assert torch.equal(again.graph.by_user.rowptr, data.graph.by_user.rowptr)
    assert torch.equal(again.users.numeric.nan_to_num(-1e9), data.users.numeric.nan_to_num(-1e9))
    assert again.users.category_names == data.users.category_names
