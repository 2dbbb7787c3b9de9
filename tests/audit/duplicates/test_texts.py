"""Texts with the same words, and titles with wrong letters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from drgcn.audit.duplicates.texts import (
    LONGEST,
    TextDuplicates,
    checked_texts,
    pieces,
    plain_words,
    text_duplicates,
)
from drgcn.errors import InputError

LETTERS = np.array(list("bcdfglmnprstvaeiou"))


def _vocabulary(draw: np.random.Generator, size: int) -> list[str]:
    return ["".join(draw.choice(LETTERS, draw.integers(5, 10))) for _ in range(size)]


def _texts(draw: np.random.Generator, count: int, lengths: tuple[int, int]) -> list[str]:
    words = np.array(_vocabulary(draw, 800))
    frequency = 1 / np.arange(5, 805)
    return [
        " ".join(draw.choice(words, draw.integers(*lengths), p=frequency / frequency.sum()))
        for _ in range(count)
    ]


def _as_set(found: TextDuplicates) -> set[tuple[int, int]]:
    return set(map(tuple, found.pairs.nodes.tolist()))


def test_edited_texts_are_found_and_nothing_else() -> None:
    draw = np.random.default_rng(0)
    texts = _texts(draw, 300, (60, 120))
    planted = set()
    for node in range(30):
        words = texts[node].split()
        del words[:5]
        texts.append("The " + " ".join(draw.permutation(words)).upper() + "!")
        planted.add((node, 300 + node))
    found = text_duplicates(texts)
    assert _as_set(found) == planted
    assert found.texts == 330


def test_titles_with_wrong_letters_are_found_and_nothing_else() -> None:
    draw = np.random.default_rng(1)
    texts = _texts(draw, 300, (7, 12))
    planted = set()
    for node in range(40):
        words = texts[node].split()
        place = draw.integers(len(words))
        wrong = list(words[place])
        wrong[draw.integers(1, len(wrong) - 1)] = "x"
        words[place] = "".join(wrong)
        texts.append("On " + "  ".join(words).title() + ".")
        planted.add((node, 300 + node))
    assert _as_set(text_duplicates(texts)) == planted


@pytest.mark.slow
def test_false_alarms_keep_to_the_stated_rate() -> None:
    seeds, alarms = 40, 0
    for seed in range(seeds):
        texts = _texts(np.random.default_rng(seed), 120, (5, 40))
        found = text_duplicates(texts, expected_false=0.5, least=0.01, seed=seed)
        alarms += len(found.pairs)
    assert alarms <= binom.ppf(0.999, 1000 * seeds, 0.5 / 1000)


def test_missing_and_short_texts_stay_out() -> None:
    phrase = "technical report of the department 1997"
    found = text_duplicates(["", "", " . ", phrase, phrase, phrase])
    assert (len(found.pairs), found.texts) == (0, 0)
    assert len(text_duplicates([]).pairs) == 0


def test_equal_texts_hang_on_the_first() -> None:
    draw = np.random.default_rng(2)
    texts = _texts(draw, 100, (40, 60))
    texts += [texts[3]] * 50
    found = text_duplicates(texts)
    assert _as_set(found) == {(3, node) for node in range(100, 150)}
    assert (found.pairs.score == 1).all()


def test_order_of_nodes_permutes_pairs_and_the_seed_decides() -> None:
    draw = np.random.default_rng(3)
    texts = _texts(draw, 150, (30, 60))
    texts += [text + " and more" for text in texts[:20]]
    order = draw.permutation(170)
    found = text_duplicates([texts[node] for node in order])
    renamed = {tuple(sorted((order[a], order[b]))) for a, b in _as_set(found)}
    assert renamed == _as_set(text_duplicates(texts)) == _as_set(text_duplicates(texts))
    assert len(renamed) == 20


def test_scripts_forms_of_letters_and_broken_characters() -> None:
    words = ["Schrödinger", "équation", "решётка", "格子模型", "ﬁnite", "Ｗｉｄｅ", "straße"]
    texts = [" ".join(words), " ".join(words).upper(), "\ud800 lone " + " ".join(words)]
    found = text_duplicates(texts + _texts(np.random.default_rng(4), 50, (20, 40)))
    assert {(0, 1)} <= _as_set(found) <= {(0, 1), (0, 2), (1, 2)}
    assert plain_words("Éﬁn Ｗide")[:2] == ["efin", "wide"]


@pytest.mark.slow
def test_huge_documents_are_handled() -> None:
    draw = np.random.default_rng(5)
    texts = _texts(draw, 30, (40, 60))
    block = " ".join(_vocabulary(draw, 5000))
    huge = block * (10_000_000 // len(block) + 1)
    found = text_duplicates([*texts, huge, huge + " end"])
    assert _as_set(found) == {(30, 31)}


def test_other_input_is_refused() -> None:
    with pytest.raises(InputError, match="found bytes for node 1"):
        text_duplicates(["a", b"b"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="found NoneType"):
        text_duplicates([None])  # type: ignore[list-item]
    with pytest.raises(InputError, match="single text"):
        text_duplicates("abc")
    with pytest.raises(InputError, match="for each of 3 nodes; found 1"):
        checked_texts(["a"], 3)
    with pytest.raises(InputError, match="at most 67,108,864 characters"):
        checked_texts(["a" * (LONGEST + 1)])


def test_words_and_pieces() -> None:
    assert plain_words("The 3 Classifiers, learned in 2D!") == ["classifier", "learn", "2d"]
    assert plain_words("Learned classes", stem=False) == ["learned", "classes"]
    assert pieces(["abc", "d"]) == [" ab", "abc", "bc ", " d "]
