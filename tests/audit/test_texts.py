"""Texts of nodes, and features made of word vectors."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from drgcn.audit.texts import NodeTexts, WordVectors, split_words, title_features, words_of
from drgcn.errors import InputError, MissingDataError
from tests.reference import texts as reference


def test_texts_come_in_node_order_with_their_kinds(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = [
        {"index": 1, "text": "b\u2028c", "kind": "title", "more": 3},
        {"index": 0, "text": "", "kind": "abstract"},
        {"index": 2, "text": "d", "kind": "title"},
    ]
    dumped = (json.dumps(line, ensure_ascii=False) for line in lines)
    path.write_text("\n".join(dumped) + "\n\n", encoding="utf-8")
    nodes = NodeTexts.read(path)
    assert nodes.texts == ("", "b\u2028c", "d")
    assert nodes.kinds == {"title": 2, "abstract": 1}


def test_kinds_are_not_needed(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"index": 0, "text": "a"}')
    assert NodeTexts.read(path).kinds == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"{", "line 1: expected a JSON object"),
        (b'{"index": 0, "text": "\xff"}', "line 1: expected a JSON object"),
        (b"[0]", "line 1: expected a JSON object, found a list"),
        (b'{"text": "a"}', 'line 1: expected "index"'),
        (b'{"index": true, "text": "a"}', 'line 1: expected "index".*True'),
        (b'{"index": -1, "text": "a"}', 'line 1: expected "index".*-1'),
        (b'{"index": 0}', 'line 1: expected "text" to be a string, found None'),
        (b'{"index": 0, "text": "a"}\n' * 2, "line 2: node 0 has a text already"),
        (b'{"index": 0, "text": "a"}\n{"index": 2, "text": "b"}', "node 1 is not there"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        NodeTexts.read(path)


def test_missing_files_are_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        NodeTexts.read(tmp_path / "none.jsonl")
    with pytest.raises(MissingDataError, match=r"refined.cora_text\.jsonl.*--text"):
        NodeTexts.of_dataset(tmp_path, "Cora")


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


PLAIN = "the 0.1 -0.2 3e-1\nof 1 2 3\nnetwork -1 0 .5\n"


def _write(folder: Path, content: str | bytes, name: str = "vectors.txt") -> Path:
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize(
    ("name", "header", "end"),
    [
        ("vectors.txt", "", "\n"),
        ("vectors.txt", "3 3\n", "\n"),
        ("vectors.txt", "\n", "\n"),
        ("vectors.txt", "", "\r\n"),
        ("vectors.txt", "", " \n"),
        ("vectors.txt.gz", "3 3\n", " \n"),
    ],
)
def test_only_the_words_asked_for_are_kept(
    tmp_path: Path, name: str, header: str, end: str
) -> None:
    path = _write(tmp_path, header + PLAIN.replace("\n", end), name)
    vectors = WordVectors.read(path, ["network", "the", "graph"])
    assert (len(vectors), vectors.width) == (2, 3)
    assert "the" in vectors
    assert "of" not in vectors
    assert "graph" not in vectors
    assert vectors.matrix.dtype == np.float32
    np.testing.assert_array_equal(vectors["the"], np.float32([0.1, -0.2, 0.3]))
    np.testing.assert_array_equal(vectors["network"], np.float32([-1, 0, 0.5]))


@pytest.mark.parametrize(
    "word",
    [". . .", "at name@domain.com", "  ", "3 blind mice", "\u00a0", "\u2028", "ü"],
)
def test_words_may_contain_blanks(tmp_path: Path, word: str) -> None:
    lines = ["the 1 2", f"{word} 3 4"]
    for order in (lines, lines[::-1]):
        path = _write(tmp_path, "\n".join(order))
        np.testing.assert_array_equal(WordVectors.read(path, [word])[word], np.float32([3, 4]))


def test_numbers_are_words_too(tmp_path: Path) -> None:
    vectors = WordVectors.read(_write(tmp_path, "1998 1 2\nnan 3 4\n7 5 6"), ["1998", "nan", "7"])
    assert vectors.matrix.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_first_of_two_vectors_counts(tmp_path: Path) -> None:
    vectors = WordVectors.read(_write(tmp_path, "a 1 2\na 3 4\n"), ["a"])
    assert vectors.matrix.tolist() == [[1, 2]]


def test_no_known_word_leaves_the_width(tmp_path: Path) -> None:
    assert WordVectors.read(_write(tmp_path, PLAIN), ["graph"]).matrix.shape == (0, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a 1 2\nb 3\n", "line 2: expected 2 numbers after the word.* found 1"),
        ("a 1 2\n\nb 3 4 5 6\n", "line 3: expected 2 numbers after the word.* found 4"),
        ("2 3\na 1 2\n", "line 2: expected 3 numbers"),
        ("a 1 2\nb 3 x\n", "line 2: the vector holds something"),
        ("a 1 2\nb 3 nan\n", "line 2: the vector holds something"),
        ("a 1 2\nb 3 1e60\n", "line 2: the vector holds something"),
        ("a\t1\t2\n", "line 1: expected a word and the numbers"),
        ("PK\x03\x04", "line 1: expected a word and the numbers"),
        ("5 0\n", "line 1: expected a word and the numbers"),
        ("5 " + "9" * 5000 + "\na 1 2\n", "line 2: expected 1 numbers"),
        ("a 1 2\nb 3 1_0\n", "line 2: the vector holds something"),
        ("", "holds no word vectors"),
        ("x" * (1 << 20), "line 1 is too long"),
    ],
)
def test_damaged_files_are_refused_by_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        WordVectors.read(_write(tmp_path, content), ["a", "b"])


def test_unread_words_are_checked_for_length_alone(tmp_path: Path) -> None:
    path = _write(tmp_path, "a 1 2\nb 3 x\n")
    assert len(WordVectors.read(path, ["a"])) == 1


def test_missing_and_cut_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        WordVectors.read(tmp_path / "none.txt", [])
    whole = gzip.compress(PLAIN.encode() * 100)
    for content in (whole[:-20], b"no gzip", whole[:12] + b"\xff" * 50):
        path = tmp_path / "cut.txt.gz"
        path.write_bytes(content)
        with pytest.raises(InputError, match="damaged after line"):
            WordVectors.read(path, ["the"])


def test_rows_and_words_must_agree() -> None:
    with pytest.raises(InputError, match="one row per word"):
        WordVectors({"a": 0, "b": 0}, np.zeros((2, 3), dtype=np.float32))


@given(
    st.dictionaries(
        st.text(st.characters(categories=["L", "P"]), min_size=1, max_size=8),
        st.lists(
            st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3
        ),
        min_size=1,
        max_size=6,
    )
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, list[float]]
) -> None:
    lines = (" ".join([word, *map(repr, vector)]) for word, vector in table.items())
    path = _write(tmp_path_factory.mktemp("words"), "\n".join(lines))
    vectors = WordVectors.read(path, table)
    assert {word: vectors[word].tolist() for word in vectors.index} == table
