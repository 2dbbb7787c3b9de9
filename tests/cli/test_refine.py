"""``drgcn refine`` as a user meets it."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from drgcn.data import load

from ..audit.refining.test_refine import COPIES, documents
from .test_cli import call  # noqa: F401 - a fixture


@pytest.fixture
def papers(tmp_path):
    """A folder with copies, their texts, and a node without features."""
    data, texts = documents()
    folder = tmp_path / "papers"
    folder.mkdir()
    x = data.x.numpy().astype(int)
    x[7] = 0
    head = ["id", *(f"w{column}" for column in range(x.shape[1])), "label", "split"]
    lines = [",".join(head)]
    for node in range(160):
        part = ("train", "val", "test")[node % 3]
        lines.append(",".join(map(str, [f"p{node}", *x[node], "ab"[data.y[node]], part])))
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n")
    edges = [f"p{a},p{b}" for a, b in data.edge_index.T.tolist()]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    entries = [
        json.dumps(
            {"index": i, "text": "" if i == 7 else t, "kind": "list" if i > 149 else "text"}
        )
        for i, t in enumerate(texts)
    ]
    (tmp_path / "texts.jsonl").write_text("\n".join(entries))
    return folder


def fates(folder):
    with Path(folder, "node_map.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_copies_are_merged_and_the_folder_is_a_dataset(call, papers):  # noqa: F811
    before = {path.name: path.read_bytes() for path in papers.iterdir()}
    code, out, error = call("refine", "papers", "--out", "new", "--text", "texts.jsonl")
    assert code == 0
    assert "160 nodes -> 157: 3 merged, 0 dropped" in out
    assert "round 2: 0 groups" in error
    assert {row["old"]: row["into"] for row in fates("new") if row["fate"] == "merged"} == {
        str(copy): str(original) for copy, original in COPIES.items()
    }
    assert load("./new").num_nodes == 157
    assert {path.name: path.read_bytes() for path in papers.iterdir()} == before
    code, out, _ = call("refine", "./new", "--out", "newer", "--text", "new/text.jsonl")
    assert "157 nodes -> 157: 0 merged" in out
    first, second = load("./new"), load("./newer")
    assert first.dataset.content_hash == second.dataset.content_hash
    assert call("audit", "./newer", "--text", "newer/text.jsonl")[0] == 0


def test_nodes_columns_and_features_are_taken_out(call, papers):  # noqa: F811
    Path("drop.csv").write_text("node,reason\n12,lost\n13,\n")
    words = ("refine", "papers", "--drop", "drop.csv", "--drop-empty", "--text", "texts.jsonl")
    code, out, _ = call(*words, "--out", "a", "--remove-features", "0,5", "--json")
    assert code == 0
    account = json.loads(out)
    assert account["nodes"] == {"before": 160, "kept": 154, "merged": 3, "dropped": 3}
    assert account["features"]["removed columns"] == [0, 5]
    assert load("./a").num_features == 298
    reasons = {row["old"]: row["reason"] for row in fates("a") if row["fate"] == "dropped"}
    assert reasons == {"7": "no features and no text", "12": "lost", "13": "dropped on request"}
    np.save("new.npy", np.arange(320, dtype=np.float32).reshape(160, 2))
    assert call("refine", "papers", "--out", "b", "--new-features", "new.npy")[0] == 0
    assert load("./b").x[0].tolist() == [0, 1]


def test_kinds_of_text_can_be_left_out(call, papers):  # noqa: F811
    words = ("refine", "papers", "--text", "texts.jsonl", "--evidence", "text")
    assert "3 merged" in call(*words, "--out", "a")[1]
    assert "0 merged" in call(*words, "--out", "b", "--skip-kind", "list")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["papers", "--out", "papers"], "there already"),
        (["papers", "--out", "new", "--evidence", "text"], "--text"),
        (["papers", "--out", "new", "--drop", "bad.csv"], "columns node"),
        (["papers", "--out", "new", "--drop", "far.csv"], "found 999 in drop"),
        (["papers", "--out", "new", "--remove-features", "a"], "--remove-features"),
        (["papers", "--out", "new", "--new-features", "gone.npy"], "--new-features"),
        (["papers", "--out", "new", "--text", "texts.jsonl", "--skip-kind", "x"], "'list'"),
        (["papers", "--out", "new", "--text", "two.jsonl", "--drop-empty"], "160 nodes; found 2"),
    ],
)
def test_bad_input_ends_in_one_line_and_leaves_nothing(call, papers, words, message):  # noqa: F811
    Path("bad.csv").write_text("number\n1\n")
    Path("far.csv").write_text("node,reason\n999,x\n")
    Path("two.jsonl").write_text('{"index": 0, "text": ""}\n{"index": 1, "text": ""}\n')
    code, out, error = call("refine", *words)
    assert (code, out) == (2, "")
    assert message in error
    assert "\n" not in error.strip()
    assert not Path("new").exists()
    assert not list(Path().glob(".new*"))
