"""Counts per class, against loops over nodes."""

import numpy as np
import pytest

from drgcn.audit.leaks.class_names import COLUMNS, label_word_table, word_leak_finding
from drgcn.audit.leaks.words import TextIndex
from drgcn.errors import InputError

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
NAMES = ["Theory", "Rule_Learning"]


def test_counts_of_a_small_example():
    table = label_word_table(TextIndex(TEXTS, 7), Y, NAMES)
    theory, rule = table.rows
    assert (theory.total, theory.readable, theory.appeared) == (4, 3, 1)
    assert (theory.others, theory.elsewhere) == (2, 1)
    assert (rule.total, rule.readable, rule.appeared) == (2, 2, 1)
    assert (rule.others, rule.elsewhere) == (4, 1)
    assert (table.carriers, table.labelled, table.skipped) == (2, 6, ())
    assert table.rate == pytest.approx(2 / 6)
    assert table.excess == pytest.approx((1 - 4 / 2 + 1 - 2 / 4) / 6)
    assert len(table.cells[0]) == len(COLUMNS)
    assert table.cells[1][4:] == ["1", "50.0 %", "1", "25.0 %"]
    any_word = label_word_table(TextIndex(TEXTS, 7), Y, NAMES, "any")
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
