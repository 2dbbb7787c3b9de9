"""Features of texts from a language model: the mean of its last hidden state."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from drgcn.errors import InputError, how_to_install

# NOTE[PAPER]: how text is cut into sentences is not stated; here after a full stop, question or
# exclamation mark in front of a capital. A title without a full stop goes with what follows it.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(\[])")
_LONGEST_SENTENCE = 512


def encode_texts(
    texts: Sequence[str],
    folder: str | PathLike[str],
    batch_size: int = 32,
    progress: Callable[[int, int], None] | None = None,
    device: torch.device | str = "cpu",
) -> npt.NDArray[np.float32]:
    """Return, for each text, the mean over its sentences of their mean last hidden state.

    Args:
        texts: One text per node. An empty one gives a row of zeros.
        folder: A model and its tokenizer as ``transformers`` saves them (``config.json``,
            ``model.safetensors``, ``tokenizer.json``). Nothing is downloaded, no code out of the
            folder is run, and weights that are pickles are refused.
        batch_size: Sentences at a time.
        progress: Called after each batch with the number of sentences done and of all sentences.
        device: Where the model runs.

    Returns:
        A matrix ``[texts, hidden size]``.

    Raises:
        InputError: If the folder holds no such model, or ``transformers`` is not installed.
    """
    if batch_size < 1:
        raise InputError(f"expected batch_size to be 1 or more, found {batch_size}")
    tokenizer, model = _read(Path(folder))
    model = model.to(device).eval()
    sentences, owners = _sentences(texts)
    # Alike in length, sentences need little padding; the longest come first, so that memory
    # runs out at once or not at all.
    order = sorted(range(len(sentences)), key=lambda place: -len(sentences[place]))
    means = np.zeros((len(texts), model.config.hidden_size), dtype=np.float64)
    for start in range(0, len(order), batch_size):
        places = order[start : start + batch_size]
        tokens = tokenizer(
            [sentences[place] for place in places],
            padding=True,
            truncation=True,
            max_length=_most_tokens(tokenizer, model),
            return_tensors="pt",
        ).to(device)
        with torch.inference_mode():
            hidden = model(**tokens).last_hidden_state
        vectors = mean_over_tokens(hidden, tokens["attention_mask"]).double().cpu().numpy()
        np.add.at(means, owners[places], vectors)
        if progress is not None:
            progress(start + len(places), len(order))
    # NOTE[PAPER]: "we average over the last hidden state of BERT for each sentence": whether long
    # sentences weigh more is not stated; here all sentences of a text weigh the same.
    counts = np.bincount(owners, minlength=len(texts))
    return (means / np.maximum(counts, 1)[:, None]).astype(np.float32)


def mean_over_tokens(hidden: Tensor, mask: Tensor) -> Tensor:
    """Mean of ``hidden`` [sentences, tokens, width] over the tokens marked real by ``mask``."""
    # NOTE[PAPER]: whether the marks at both ends of a sentence count is not stated; here they do.
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, none of them empty."""
    return [part for part in _SENTENCE_END.split(text.strip()) if part]


def _sentences(texts: Sequence[str]) -> tuple[list[str], npt.NDArray[np.int64]]:
    parts = [split_sentences(text) for text in texts]
    owners = np.repeat(np.arange(len(texts)), [len(sentences) for sentences in parts])
    return [sentence for sentences in parts for sentence in sentences], owners


def _most_tokens(tokenizer: Any, model: Any) -> int:
    # NOTE[PAPER]: what becomes of longer sentences is not stated; BERT takes no more than 512.
    positions = getattr(model.config, "max_position_embeddings", _LONGEST_SENTENCE)
    return min(_LONGEST_SENTENCE, tokenizer.model_max_length, positions)


def _read(folder: Path) -> tuple[Any, Any]:
    if not (folder / "config.json").is_file():
        raise InputError(
            f"expected {folder} to be the folder of a model saved by transformers, with "
            "config.json, model.safetensors and tokenizer.json"
        )
    if not any(folder.glob("*.safetensors")):
        raise InputError(
            f"{folder} has no model.safetensors; weights in pytorch_model.bin are pickles, which "
            "are never opened: save the model again with safe_serialization=True"
        )
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise InputError(
            "Expected the package transformers to encode texts with; found none. "
            + how_to_install("text")
        ) from None
    only_here = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), **only_here)
        model = AutoModel.from_pretrained(str(folder), use_safetensors=True, **only_here)
    except Exception as error:  # a damaged folder can raise nearly anything
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise InputError(f"the model in {folder} cannot be read: {reason}") from None
    if tokenizer.pad_token is None or model.config.is_encoder_decoder:
        raise InputError(
            f"{folder} holds no encoder of the BERT kind: expected a model of one part, and a "
            "tokenizer with a padding token"
        )
    return tokenizer, model
