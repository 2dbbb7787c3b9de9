from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from drgcn.cli.verbs import app
from drgcn.data import describe, load
from drgcn.data.catalog import TWITCH_GRAPHS
from drgcn.data.union import graph_sizes
from drgcn.errors import InputError, MissingDataError

pytestmark = pytest.mark.usefixtures("invented")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Seven graphs of 6, 7, ... nodes in the published form."""
    folder = tmp_path / "twitch"
    folder.mkdir()
    for number, graph in enumerate(TWITCH_GRAPHS):
        nodes = 6 + number
        lines = [f"{i},1,{i % 2 == 0},9,False,{i}" for i in reversed(range(nodes))]
        header = "id,days,mature,views,partner,new_id"
        (folder / f"{graph}_target.csv").write_text("\n".join([header, *lines, lines[0]]) + "\n")
        words = {str(i): [i, 3169 - number, i] for i in range(nodes)}
        (folder / f"{graph}_features.json").write_text(json.dumps(words))
        edges = [f"{i},{i + 1}" for i in range(nodes - 1)]
        (folder / f"{graph}_edges.csv").write_text("\n".join(["from,to", *edges]) + "\n")
    return tmp_path


def test_one_graph_is_split_at_random(root: Path) -> None:
    data = load("twitch", root, graph="ES", offline=True, normalize="none")
    info = data.dataset
    assert (info.name, info.split, info.nodes, info.edges) == ("twitch-ES", "random-60", 8, 7)
    assert info.features == 3170
    assert data.y.tolist() == [1, 0] * 4
    # A word that is listed twice counts once.
    assert data.x[2].nonzero().flatten().tolist() == [2, 3167]
    assert data.x.max() == 1
    assert "graph" not in data


def test_one_graph_needs_only_its_own_files(root: Path) -> None:
    (root / "twitch" / "ES_edges.csv").unlink()
    assert load("twitch", root, graph="FR", offline=True).num_nodes == 9
    with pytest.raises(MissingDataError, match=r"twitch/ES_edges\.csv; fetch them from https"):
        load("twitch", root, graph="ES", offline=True)


def test_union_keeps_graphs_apart(root: Path) -> None:
    data = load("twitch", root, offline=True)
    source, target = data.edge_index
    assert (data.graph[source] == data.graph[target]).all()
    assert data.graph.bincount().tolist() == [6, 7, 8, 9, 10, 11, 12]
    assert data.graph_names == list(TWITCH_GRAPHS)
    assert data.clone().to("cpu").graph_names == list(TWITCH_GRAPHS)
    single = load("twitch", root, graph="FR", offline=True)
    assert (data.x[data.graph == 3] == single.x).all()
    assert (data.y[data.graph == 3] == single.y).all()


def test_split_names_the_validation_and_the_test_graph(root: Path) -> None:
    assert describe("twitch").default_split == "RU-ZHTW"
    for split in ("RU-ZHTW", "ES-PTBR"):
        data = load("twitch", root, split=split, offline=True)
        val, test = (TWITCH_GRAPHS.index(name) for name in split.split("-"))
        assert (data.val_mask == (data.graph == val)).all()
        assert (data.test_mask == (data.graph == test)).all()
        assert (data.train_mask == ~(data.val_mask | data.test_mask)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graph": "EN"}, "graph must be one of DE, ENGB"),
        ({"graph": "DE", "split": "RU-ZHTW"}, "only the split 'random-60'"),
        ({"split": "random-60"}, "is for one twitch graph"),
        ({"split": "ES-ES"}, "has no split 'ES-ES'"),
    ],
)
def test_requests_that_do_not_fit_are_refused(
    root: Path, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load("twitch", root, offline=True, **arguments)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("DE_edges.csv", "from,to\n0,6\n"),
        ("DE_edges.csv", "from,to\n0,a\n"),
        ("DE_features.json", "{"),
        ("DE_features.json", '{"0": [1]}'),
        ("DE_target.csv", "id,mature\n1,True\n"),
        ("DE_target.csv", "mature,new_id\nTrue,5\n"),
    ],
)
def test_damaged_files_are_one_clear_error(root: Path, file: str, content: str) -> None:
    (root / "twitch" / file).write_text(content)
    with pytest.raises(InputError, match=r"DE_.* are damaged or do not belong together"):
        load("twitch", root, graph="DE", offline=True)


def test_info_lists_the_graphs_with_their_sizes(root: Path) -> None:
    words = ["data", "info", "twitch", "--data-root", str(root), "--offline"]
    facts = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert [graph["name"] for graph in facts["graphs"]] == list(TWITCH_GRAPHS)
    assert [graph["nodes"] for graph in facts["graphs"]] == [6, 7, 8, 9, 10, 11, 12]
    assert [graph["edges"] for graph in facts["graphs"]] == [5, 6, 7, 8, 9, 10, 11]
    parts = {graph["name"]: graph["parts"] for graph in facts["graphs"]}
    assert (parts.pop("RU"), parts.pop("ZHTW")) == (["val"], ["test"])
    assert all(part == ["train"] for part in parts.values())
    printed = CliRunner().invoke(app, words).stdout
    assert "DE: 6 nodes, 5 edges (train)" in printed
    assert "ZHTW: 12 nodes, 11 edges (test)" in printed


def test_info_of_one_graph_lists_none(root: Path) -> None:
    assert graph_sizes(load("twitch", root, graph="ES", offline=True)) == []


@pytest.mark.data
def test_real_graphs_have_their_counts(real: Callable[..., Any]) -> None:
    data = real("twitch", sparse=True)
    assert data.graph.bincount().tolist() == [9498, 7126, 4648, 6549, 1912, 4385, 2772]
    edges = data.graph[data.edge_index[0]].bincount() // 2
    assert edges.tolist() == [153138, 35324, 59382, 112666, 31299, 37304, 63462]
    assert data.dataset.features == 3170
    assert data.dataset.class_names == ("not mature", "mature")
