from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from drgcn.audit.texts import WordVectors, split_words, title_features, words_of
from tests.reference import texts as reference

WORDS = ("neural", "networks", "graph", "the", "bayes", "1998")
VECTORS = WordVectors(
    {word: row for row, word in enumerate(WORDS)},
    np.random.default_rng(0).normal(size=(len(WORDS), 5)).astype(np.float32),
)


def _expected(texts: list[str]) -> np.ndarray:
    table = {word: VECTORS[word] for word in WORDS}
    return np.array([reference.title(text, table, 5, ENGLISH_STOP_WORDS) for text in texts])


@pytest.mark.parametrize(
    "text",
    [
        "Neural Networks for the Graph",
        "Bayes's networks: neural, neural and NEURAL (1998)",
        "the graph_networks of case-based 1998reasoning",
        "of the and",
        "unheard words",
        "",
        " . , '",
    ],
)
def test_equals_the_literal_transcription(text: str) -> None:
    found = title_features([text], VECTORS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, _expected([text]), rtol=1e-6)


@given(
    st.lists(
        st.lists(st.sampled_from([*WORDS, "of", "a", "unheard", "s", "'s", ",", "-"])).map(
            " ".join
        )
    )
)
def test_equals_the_literal_transcription_on_many(texts: list[str]) -> None:
    expected = _expected(texts).reshape(len(texts), 7)
    np.testing.assert_allclose(title_features(texts, VECTORS), expected, rtol=1e-5, atol=1e-6)


def test_stop_words_and_unknown_words_count_in_the_lengths_alone() -> None:
    row = title_features(["the graph of unheard"], VECTORS)[0]
    np.testing.assert_array_equal(row[:-2], VECTORS["graph"])
    assert row[-2:].tolist() == [4, 2]


def test_text_without_a_known_word_has_the_mean_zero() -> None:
    assert title_features(["the unheard", ""], VECTORS).tolist() == [
        [0, 0, 0, 0, 0, 2, 1],
        [0, 0, 0, 0, 0, 0, 0],
    ]


def test_words_needed_are_those_that_are_no_stop_words() -> None:
    assert words_of(["The Graph", "a graph of trees"]) == {"graph", "trees"}


def test_letters_beyond_ascii_are_letters() -> None:
    assert split_words("Schrödinger’s Gödel") == ["schrödinger", "gödel"]
