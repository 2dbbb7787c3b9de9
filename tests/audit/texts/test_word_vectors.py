from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drgcn.audit.texts import WordVectors
from drgcn.errors import InputError

PLAIN = "the 0.1 -0.2 3e-1\nof 1 2 3\nnetwork -1 0 .5\n"


def _write(folder: Path, content: str | bytes, name: str = "vectors.txt") -> Path:
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["vectors.txt", "vectors.txt.gz"])
@pytest.mark.parametrize("header", ["", "3 3\n", "\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
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
    [". . .", "at name@domain.com", "  ", "new york", "3 blind mice", "\u00a0", "\u2028", "ü"],
)
@pytest.mark.parametrize("first", [False, True])
def test_words_may_contain_blanks(tmp_path: Path, word: str, first: bool) -> None:
    lines = ["the 1 2", f"{word} 3 4"]
    path = _write(tmp_path, "\n".join(lines[::-1] if first else lines))
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
        ("a 1 2\nb\n", "line 2: expected 2 numbers after the word.* found 0"),
        ("a 1 2\nb 3 4 5\n", "line 2: expected 2 numbers after the word.* found 3"),
        ("a 1 2\n\nb 3 4 5 6\n", "line 3: expected 2 numbers after the word.* found 4"),
        ("2 3\na 1 2\n", "line 2: expected 3 numbers"),
        ("a 1 2\nb 3 x\n", "line 2: the vector holds something"),
        ("a 1 2\nb 3 nan\n", "line 2: the vector holds something"),
        ("a 1 2\nb 3 1e60\n", "line 2: the vector holds something"),
        ("a\t1\t2\n", "line 1: expected a word and the numbers"),
        ("PK\x03\x04", "line 1: expected a word and the numbers"),
        ("5 0\n", "line 1: expected a word and the numbers"),
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
