"""``drgcn data features`` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import drgcn.cli.verbs
from drgcn.cli import data
from drgcn.errors import DrgcnError

Call = Callable[..., tuple[int, str, str]]
TEXTS = ["The neural graph", "of the", "unheard", "graph"]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Runs the command in a folder with texts and word vectors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRGCN_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / "refined").mkdir(parents=True)
    entries = [{"index": i, "text": text, "kind": "title"} for i, text in enumerate(TEXTS)]
    content = "\n".join(map(json.dumps, entries))
    (tmp_path / "data" / "refined" / "corar_text.jsonl").write_text(content)
    (tmp_path / "mine.jsonl").write_text(content)
    (tmp_path / "glove.txt").write_text("neural 1 2 3\ngraph 3 2 1\n")

    def run(*words: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(drgcn.cli.verbs.app, ["data", "features", *words])
        if isinstance(result.exception, DrgcnError):
            return 2, result.stdout, str(result.exception)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return run


@pytest.mark.parametrize("source", [["CoraR"], ["--text", "mine.jsonl"]])
def test_word_features_are_written_and_counted(
    call: Call, tmp_path: Path, source: list[str]
) -> None:
    code, out, err = call(*source, "--words", "glove.txt", "--out", "f.npy")
    assert code == 0, err
    assert np.load(tmp_path / "f.npy").tolist() == [
        [2, 2, 2, 3, 2],
        [0, 0, 0, 2, 0],
        [0, 0, 0, 1, 1],
        [3, 2, 1, 1, 1],
    ]
    assert "4 x title" in out
    assert "f.npy: 4 x 5, 2 without a known word" in out
    assert "found 2 of 3 words" in err


def test_encoder_features_are_written(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(texts, folder, batch_size, progress, device):
        progress(len(texts), len(texts))
        return np.float32([[len(text), batch_size] for text in texts])

    monkeypatch.setattr("drgcn.audit.texts.encode_texts", encode)
    monkeypatch.setattr("drgcn.cli.options._LINE_EVERY", 0)
    words = ("--encoder", "bert", "--batch-size", "3", "--device", "cpu", "--out", "f.npy")
    code, out, err = call("corar", *words)
    assert code == 0, err
    assert np.load(tmp_path / "f.npy").tolist() == [[16, 3], [6, 3], [7, 3], [5, 3]]
    assert "4 x 2, 0 without text" in out
    assert "4 of 4 sentences" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["corar", "--out", "f.npy"], "either --words FILE or --encoder"),
        (["corar", "--words", "glove.txt", "--encoder", "b", "--out", "f.npy"], "and not both"),
        (["corar", "--words", "glove.txt", "--out", "f.npz"], r"an \.npy file"),
        (["corar", "--words", "glove.txt", "--out", "no/f.npy"], "folder that exists"),
        (["--words", "glove.txt", "--out", "f.npy"], "name of a dataset, or --text"),
        (["citeseerr", "--words", "glove.txt", "--out", "f.npy"], "no text of citeseerr"),
        (["corar", "--words", "none.txt", "--out", "f.npy"], "does not exist"),
        (["corar", "--encoder", "none", "--out", "f.npy"], r"config\.json"),
    ],
)
def test_bad_input_is_explained_and_writes_nothing(
    call: Call, tmp_path: Path, words: list[str], message: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(err)
    assert sorted(tmp_path.rglob("*")) == before


def test_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.npy"
    path.write_bytes(b"old")

    def fail(file, matrix):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        data._write(np.zeros((1, 1), dtype=np.float32), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
