"""Features of texts from a language model, against one sentence at a time."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drgcn.audit.texts import encode_texts, mean_over_tokens, split_sentences
from drgcn.errors import InputError
from tests.reference import texts as reference

TEXTS = [
    "Graphs of words. A word of graphs? The end",
    "",
    "graphs",
    "words of graphs " * 20 + ". The end of words.",
    "  ",
]


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A BERT of random weights with a vocabulary of a few words, saved as a user would."""
    transformers = pytest.importorskip(
        "transformers", reason="transformers is not installed: pip install '.[text]'"
    )
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = ["graphs", "of", "words", "a", "word", "the", "end", ".", "?"]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(marks + words))
    folder = tmp_path / "model"
    tokenizer = transformers.BertTokenizerFast(str(vocabulary))
    if len(tokenizer) != len(marks + words):  # newer versions take the table itself
        table = {word: number for number, word in enumerate(marks + words)}
        tokenizer = transformers.BertTokenizerFast(vocab=table)
    config = transformers.BertConfig(
        vocab_size=len(marks + words),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
        initializer_range=0.5,
    )
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _one_at_a_time(folder: Path, texts: list[str]) -> np.ndarray:
    from transformers import AutoTokenizer, BertModel

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BertModel.from_pretrained(folder).eval()
    rows = []
    for text in texts:
        vectors = []
        for sentence in split_sentences(text):
            ids = tokenizer(sentence)["input_ids"]
            ids = ids if len(ids) <= 32 else [*ids[:31], ids[-1]]
            with torch.no_grad():
                hidden = model(torch.tensor([ids])).last_hidden_state[0].double().numpy()
            vectors.append(sum(hidden) / len(hidden))
        rows.append(sum(vectors) / len(vectors) if vectors else np.zeros(8))
    return np.array(rows)


@pytest.mark.parametrize("batch_size", [1, 2, 32])
@pytest.mark.filterwarnings("default")
def test_equals_one_sentence_at_a_time(bert: Path, batch_size: int) -> None:
    calls: list[tuple[int, int]] = []
    found = encode_texts(TEXTS, bert, batch_size, lambda done, all_: calls.append((done, all_)))
    assert found.dtype == np.float32
    expected = _one_at_a_time(bert, TEXTS)
    assert len(np.unique(expected.round(3), axis=0)) == 4  # texts differ, but for the empty ones
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert calls[-1] == (6, 6)
    assert len(calls) == -(-6 // batch_size)


@pytest.mark.filterwarnings("default")
def test_nothing_to_encode(bert: Path) -> None:
    assert encode_texts([], bert).shape == (0, 8)
    assert not encode_texts(["", " "], bert).any()


@pytest.mark.filterwarnings("default")
def test_damaged_models_and_pickles_are_refused(bert: Path) -> None:
    weights = bert / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:100])
    with pytest.raises(InputError, match="cannot be read"):
        encode_texts(TEXTS, bert)
    weights.rename(bert / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"no model\.safetensors.*never opened"):
        encode_texts(TEXTS, bert)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "bert-base-uncased"):
        with pytest.raises(InputError, match=r"config\.json"):
            encode_texts(TEXTS, folder)
    with pytest.raises(InputError, match="batch_size"):
        encode_texts(TEXTS, tmp_path, batch_size=0)


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    original = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "transformers":
            raise ImportError(name)
        return original(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install '\.\[text\]'"):
        encode_texts(TEXTS, tmp_path)


def test_mean_over_tokens_is_that_of_the_literal_transcription() -> None:
    hidden = torch.randn(3, 4, 5)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
    expected = reference.mean_over_tokens(hidden.numpy(), mask.numpy())
    np.testing.assert_allclose(mean_over_tokens(hidden, mask).numpy(), expected, atol=1e-6)


def test_sentences_end_before_a_capital() -> None:
    for text, sentences in [
        ("", []),
        (" \n", []),
        ("One", ["One"]),
        ("One. Two? Three!  Four", ["One.", "Two?", "Three!", "Four"]),
        (
            "We use 3.5 of them, i.e. most. (Not all.)",
            ["We use 3.5 of them, i.e. most.", "(Not all.)"],
        ),
    ]:
        assert split_sentences(text) == sentences, text
