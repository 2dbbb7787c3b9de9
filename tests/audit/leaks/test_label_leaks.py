"""All leak findings of a graph together."""

import json

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from drgcn.audit.leaks.findings import leak_findings
from drgcn.audit.texts import NodeTexts
from drgcn.data import load
from drgcn.errors import InputError

NAMES = ["Neural_Networks", "Theory", "Case_Based"]
FEATURES = ["neural", "networks", "theory", "casebased", None, "x", "y", "z"]


def graph(seed=0, nodes=200, leak=True):
    """Words at random; with a leak, most nodes carry the words of their class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, nodes)
    x = (rng.random((nodes, 8)) < 0.1).astype(np.float32)
    if leak:
        for label, columns in enumerate(([0, 1], [2], [3])):
            x[np.ix_((y == label) & (rng.random(nodes) < 0.9), columns)] = 1
    part = rng.integers(0, 3, nodes)
    return Data(
        x=torch.from_numpy(x),
        y=torch.from_numpy(y),
        edge_index=torch.from_numpy(rng.integers(0, nodes, (2, 400))),
        **{
            f"{name}_mask": torch.from_numpy(part == number)
            for number, name in enumerate(("train", "val", "test"))
        },
    )


def texts_of(data):
    return [
        " ".join(name for name, value in zip(FEATURES, row, strict=True) if name and value)
        for row in data.x.tolist()
    ]


def by_name(findings):
    return {finding.name: finding for finding in findings}


def test_planted_leaks_are_found():
    data = graph()
    found = by_name(leak_findings(data, texts_of(data), FEATURES, NAMES))
    assert list(found) == [
        "label words in texts",
        "label words among features",
        "features that give the class away",
        "simple predictors",
    ]
    texts, features, telling, simple = found.values()
    carried = sum(
        {0: row[0] and row[1], 1: row[2], 2: row[3]}[label] != 0
        for row, label in zip(data.x.tolist(), data.y.tolist(), strict=True)
    )
    assert texts.numbers["carriers (all)"] == features.numbers["carriers (all)"] == carried
    assert texts.severity == features.severity == telling.severity == "warning"
    assert {row[0] for row in telling.rows} == {0, 1, 2, 3}
    assert all(row[2] for row in telling.rows)
    assert simple.numbers["label word columns"] == 4
    assert simple.numbers["features alone"] > 0.85
    assert simple.numbers["features alone, without label words"] < 0.6


def test_nothing_is_found_where_nothing_is():
    alarms = 0
    for seed in range(40):
        data = graph(seed, leak=False)
        found = by_name(leak_findings(data, texts_of(data), FEATURES, NAMES, seed=seed))
        assert found["label words in texts"].severity == "note"
        assert found["label words among features"].severity == "note"
        alarms += found["features that give the class away"].severity != "fine"
    # At most 2 of 40 are expected: 8 come once in a thousand times.
    assert alarms <= 8


def test_shuffled_labels_are_no_leak():
    data = graph()
    data.y = data.y[torch.randperm(200)]
    found = by_name(leak_findings(data, texts_of(data), FEATURES, NAMES))
    assert found["label words in texts"].severity == "note"
    assert found["features that give the class away"].severity == "fine"


def test_a_column_that_is_the_class_is_serious():
    data = graph(leak=False)
    data.x[:, 6] = (data.y == 1).float()
    telling = by_name(leak_findings(data, class_names=NAMES))["features that give the class away"]
    assert telling.severity == "serious"
    assert telling.rows[0][0] == 6
    assert telling.rows[0][4:] == ("Theory", 1.0, 1.0, 1.0)


def test_without_texts_and_names_two_findings_are_left():
    assert [f.name for f in leak_findings(graph())] == [
        "features that give the class away",
        "simple predictors",
    ]


def test_missing_texts_are_said():
    data = graph()
    texts = [None if node % 4 == 0 else text for node, text in enumerate(texts_of(data))]
    finding = leak_findings(data, texts, class_names=NAMES)[0]
    silent = sum(not text for text in texts)
    assert f"{silent} nodes have no words" in finding.summary
    assert finding.numbers["nodes with words"] == 200 - silent


def test_texts_from_a_file_will_do():
    data = graph()
    texts = NodeTexts(tuple(texts_of(data)), {})
    assert leak_findings(data, texts, class_names=NAMES) == leak_findings(
        data, list(texts.texts), class_names=NAMES
    )


def test_training_labels_only():
    data = graph()
    other = graph()
    other.y[~other.train_mask] = (other.y[~other.train_mask] + 1) % 3
    name = "features that give the class away"
    first, second = (
        by_name(leak_findings(d, class_names=NAMES, labels="train"))[name] for d in (data, other)
    )
    assert first == second
    assert "training nodes" in first.definition
    assert "all labelled nodes" in by_name(leak_findings(data))[name].definition
    with pytest.raises(InputError, match="'all' or 'train'; found 'test'"):
        leak_findings(data, labels="test")


def test_sparse_is_dense():
    data, thin = graph(), graph()
    thin.x = thin.x.to_sparse_csr()
    texts = texts_of(data)
    assert leak_findings(data, texts, FEATURES, NAMES) == leak_findings(
        thin, texts, FEATURES, NAMES
    )


def test_an_audit_changes_nothing():
    data = graph()
    before, texts, names = data.clone(), texts_of(data), list(FEATURES)
    leak_findings(data, texts, names, NAMES)
    assert texts == texts_of(before)
    assert names == FEATURES
    for key in before.keys():  # noqa: SIM118 - the keys of a Data are a method
        assert torch.equal(before[key], data[key])


def test_findings_are_ready_for_json():
    data = graph()
    for finding in leak_findings(data, texts_of(data), FEATURES, NAMES):
        again = json.loads(json.dumps(finding.to_dict()))
        assert again["numbers"] == finding.numbers
        assert all(len(row) == len(finding.columns) for row in finding.rows)


def test_class_names_come_from_the_dataset():
    data = load("wine")
    finding = leak_findings(data, ["class 0"] * 178)[0]
    assert [row[0] for row in finding.rows] == list(data.dataset.class_names)


def test_several_labels_a_node_and_no_split_are_said_not_raised():
    data = graph()
    data.y = torch.nn.functional.one_hot(data.y).float()
    texts, telling, simple = leak_findings(data, texts_of(data), class_names=NAMES)
    assert texts.numbers["labelled"] == 200
    assert telling.summary.startswith("Not looked at. Expected one class number")
    assert simple.summary.startswith("Not looked at. Expected one class a node")
    plain = Data(x=graph().x, edge_index=graph().edge_index, y=graph().y)
    telling, simple = leak_findings(plain, class_names=NAMES)
    assert telling.severity == "note"
    assert "Give a split" in simple.summary


def test_names_that_do_not_fit_are_refused():
    data = graph()
    with pytest.raises(InputError, match="each of 3 classes; found 2"):
        leak_findings(data, texts_of(data), class_names=NAMES[:2])
    with pytest.raises(InputError, match="8 feature columns; found 3"):
        leak_findings(data, feature_names=["a", "b", "c"], class_names=NAMES)
    with pytest.raises(InputError, match="200 nodes; found 1 texts"):
        leak_findings(data, ["a"], class_names=NAMES)
