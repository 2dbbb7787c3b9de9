"""Findings about label leaks, and counts per class against loops over nodes."""

import json

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from drgcn.audit.leaks.findings import label_word_table, leak_findings, word_leak_finding
from drgcn.audit.leaks.words import TextIndex
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
    texts, features, predictive, simple = found.values()
    carried = sum(
        {0: row[0] and row[1], 1: row[2], 2: row[3]}[label] != 0
        for row, label in zip(data.x.tolist(), data.y.tolist(), strict=True)
    )
    assert texts.numbers["carriers (all)"] == features.numbers["carriers (all)"] == carried
    assert texts.severity == features.severity == predictive.severity == "warning"
    assert {row[0] for row in predictive.rows} == {0, 1, 2, 3}
    assert all(row[2] for row in predictive.rows)
    assert simple.numbers["label word columns"] == 4
    assert simple.numbers["features alone"] > 0.85
    assert simple.numbers["features alone, without label words"] < 0.6


def test_nothing_is_found_where_nothing_is():
    alarms = 0
    for seed in range(40):
        data = graph(seed, leak=False)
        del data.test_mask  # nothing to predict: regressions would take most of the time
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
    predictive = by_name(leak_findings(data, class_names=NAMES))[
        "features that give the class away"
    ]
    assert predictive.severity == "serious"
    assert predictive.rows[0][0] == 6
    assert predictive.rows[0][4:] == ("Theory", 1.0, 1.0, 1.0)


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
    texts, predictive, simple = leak_findings(data, texts_of(data), class_names=NAMES)
    assert texts.numbers["labelled"] == 200
    assert predictive.summary.startswith("Not looked at. Expected one class number")
    assert simple.summary.startswith("Not looked at. Expected one class a node")
    plain = Data(x=graph().x, edge_index=graph().edge_index, y=graph().y)
    predictive, simple = leak_findings(plain, class_names=NAMES)
    assert predictive.severity == "note"
    assert "Give a split" in simple.summary


def test_names_that_do_not_fit_are_refused():
    data = graph()
    with pytest.raises(InputError, match="each of 3 classes; found 2"):
        leak_findings(data, texts_of(data), class_names=NAMES[:2])
    with pytest.raises(InputError, match="8 feature columns; found 3"):
        leak_findings(data, feature_names=["a", "b", "c"], class_names=NAMES)
    with pytest.raises(InputError, match="200 nodes; found 1 texts"):
        leak_findings(data, ["a"], class_names=NAMES)


TEXTS = [
    "A theory of rules",  # 0: own
    "nothing",  # 0
    None,  # 0, no text
    "rule learning in theory",  # 1: own, and the other's
    "learning",  # 1: one of two words
    "theory",  # no label
    "rules, learned",  # 0: the other's
]
Y = np.array([0, 0, 0, 1, 1, -1, 0])
TWO_NAMES = ["Theory", "Rule_Learning"]


def test_counts_of_a_small_example():
    table = label_word_table(TextIndex(TEXTS, 7), Y, TWO_NAMES)
    theory, rule = table.rows
    assert (theory.total, theory.readable, theory.appeared) == (4, 3, 1)
    assert (theory.others, theory.elsewhere) == (2, 1)
    assert (rule.total, rule.readable, rule.appeared) == (2, 2, 1)
    assert (rule.others, rule.elsewhere) == (4, 1)
    assert (table.carriers, table.labelled, table.skipped) == (2, 6, ())
    assert table.rate == pytest.approx(2 / 6)
    assert table.excess == pytest.approx((1 - 4 / 2 + 1 - 2 / 4) / 6)
    any_word = label_word_table(TextIndex(TEXTS, 7), Y, TWO_NAMES, "any")
    assert [row.appeared for row in any_word.rows] == [1, 2]
    assert [row.elsewhere for row in any_word.rows] == [1, 2]


def test_random_counts_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    words = ["neural", "networks", "rule", "learning", "theory", "x", "y"]
    texts = [" ".join(rng.choice(words, rng.integers(0, 6))) for _ in range(300)]
    y = rng.integers(-1, 3, 300)
    names = ["Neural_Networks", "Rule_Learning", "Theory"]
    table = label_word_table(TextIndex(texts, 300), y, names)
    for number, row in enumerate(table.rows):
        wanted = {"Neural_Networks": {"neural", "networks"}, "Rule_Learning": {"rule", "learning"}}
        wanted = wanted.get(row.name, {"theory"})
        has = [wanted <= set(text.split()) for text in texts]
        assert row.appeared == sum(h and c == number for h, c in zip(has, y, strict=True))
        assert row.elsewhere == sum(
            h and c not in (-1, number) for h, c in zip(has, y, strict=True)
        )
        assert row.others == sum(c not in (-1, number) for c in y)
        assert row.readable == sum(bool(t) and c == number for t, c in zip(texts, y, strict=True))
    assert table.carriers == sum(row.appeared for row in table.rows)


def test_several_labels_a_node():
    texts = TextIndex(["theory", "agents and theory", "agents"], 3)
    y = np.array([[1, 0], [1, 1], [0, 0]], dtype=np.float32)
    table = label_word_table(texts, y, ["Theory", "Agents"])
    assert [(row.appeared, row.elsewhere) for row in table.rows] == [(2, 0), (1, 1)]
    assert (table.carriers, table.labelled) == (2, 3)


def test_classes_without_words_are_left_out_and_named():
    texts = TextIndex(["theory 7", "theory 7"], 2)
    table = label_word_table(texts, np.array([0, 1]), ["Theory", "7", ""])
    assert [row.name for row in table.rows] == ["Theory"]
    assert table.skipped == ("7", "")
    finding = word_leak_finding("w", "it has", texts, np.array([0, 1]), ["Theory", "7", ""])
    assert "left out: '7', ''" in finding.summary
    assert finding.numbers["skipped classes"] == ["7", ""]


def test_no_names_at_all_is_a_note():
    names = [str(number) for number in range(9)]
    finding = word_leak_finding("w", "it has", TextIndex(["1"], 1), np.array([8]), names)
    assert finding.severity == "note"
    assert finding.summary.endswith("'0', '1', '2', '3', '4' and 4 more.")
    assert finding.rows == ()


def test_an_empty_class_has_rate_zero():
    table = label_word_table(TextIndex(["theory"], 1), np.array([0]), ["Theory", "Agents"])
    assert [row.rate for row in table.rows] == [1.0, 0.0]
    assert [row.rate_elsewhere for row in table.rows] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("y", "names", "message"),
    [
        (np.array([0, 2]), ["a", "b"], "each of 3 classes; found 2"),
        (np.array([0, 1]), "ab", "found a single string"),
        (np.array([0, 1, 1]), ["a", "b"], "labels of 2 nodes, those with words; found 3"),
        (np.zeros((2, 2)), ["a", "b", "c"], "each of 2 classes; found 3"),
    ],
)
def test_names_that_do_not_fit_the_labels_are_refused(y, names, message):
    with pytest.raises(InputError, match=message):
        label_word_table(TextIndex(["a", "b"], 2), y, names)


def test_a_word_as_common_elsewhere_is_no_warning():
    texts = TextIndex(["theory"] * 200, 200)
    y = np.repeat([0, 1], 100)
    finding = word_leak_finding("w", "it has", texts, y, ["Theory", "Agents"])
    assert finding.severity == "note"
    assert finding.numbers["excess"] == pytest.approx(0.0)
    leaking = TextIndex(["theory"] * 100 + ["agents"] * 100, 200)
    found = word_leak_finding("w", "it has", leaking, y, ["Theory", "Agents"])
    assert found.severity == "warning"
    assert found.numbers["excess"] == pytest.approx(1.0)


def test_nothing_found_is_fine_unless_there_is_nothing_to_read():
    y = np.array([0, 1])
    fine = word_leak_finding("w", "it has", TextIndex(["x", "y"], 2), y, ["Theory", "Agents"])
    assert fine.severity == "fine"
    blind = word_leak_finding("w", "it has", TextIndex(["", None], 2), y, ["Theory", "Agents"])
    assert blind.severity == "note"
    assert "2 nodes have no words" in blind.summary


@pytest.mark.parametrize("several", [False, True])
def test_mean_and_deviation_are_those_of_shuffled_labels(several):
    rng = np.random.default_rng(2)
    words = ["neural", "networks", "rule", "learning", "theory", "x"]
    texts = TextIndex([" ".join(rng.choice(words, 3)) for _ in range(60)], 60)
    y = rng.integers(-1, 3, 60)
    if several:
        y = (rng.random((60, 3)) < 0.4).astype(np.float32)
    names = ["Neural_Networks", "Rule_Learning", "Theory"]
    table = label_word_table(texts, y, names, "any")
    known = np.arange(60) if several else np.flatnonzero(y >= 0)
    sums = []
    for _ in range(2000):
        shuffled = y.copy()
        shuffled[known] = y[rng.permutation(known)]
        rows = label_word_table(texts, shuffled, names, "any").rows
        sums.append(sum(row.appeared for row in rows))
    assert np.mean(sums) == pytest.approx(table.expected, abs=4 * table.deviation / 2000**0.5)
    assert np.std(sums) == pytest.approx(table.deviation, rel=0.08)
    own = sum(row.appeared for row in table.rows)
    assert table.surprise == pytest.approx((own - table.expected) / table.deviation)
