"""Texts of nodes, and features made of them: by word vectors, or by a language model."""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from drgcn.errors import InputError, MissingDataError, how_to_install

Floats = npt.NDArray[np.float32]

_POSSESSIVE = re.compile(r"['’]s\b")
_WORD = re.compile(r"[^\W_]+")
# Misspelt words and numbers make vocabularies endless; an audit must not keep all of them.
_REMEMBERED = 1 << 18
# No line of a vector file is near this long; a file without line ends must not fill the memory.
_LONGEST_LINE = 1 << 20
# NOTE[PAPER]: how text is cut into sentences is not stated; here after a full stop, question or
# exclamation mark in front of a capital. A title without a full stop goes with what follows it.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(\[])")
_LONGEST_SENTENCE = 512


@dataclass(frozen=True)
class NodeTexts:
    """One text per node, in node order.

    Attributes:
        texts: The texts; the position is the node's index.
        kinds: How many texts there are of each kind (title, abstract, ...), where the file says.
    """

    texts: tuple[str, ...]
    kinds: dict[str, int]

    @classmethod
    def of_dataset(cls, root: Path, name: str) -> NodeTexts:
        """Read the texts of a dataset, from ``<root>/refined/<name>_text.jsonl``."""
        path = root / "refined" / f"{name.lower()}_text.jsonl"
        if not path.is_file():
            raise MissingDataError(
                f"there is no text of {name} at {path}: put it there, or name a file with --text; "
                'each line is a JSON object {"index": 0, "text": "..."}'
            )
        return cls.read(path)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> NodeTexts:
        """Read lines like ``{"index": 0, "text": "..."}``, in any order, one for every node.

        Raises:
            InputError: If a line is damaged, or nodes are named twice or not at all.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"the text file {path} does not exist")
        texts: dict[int, str] = {}
        kinds: Counter[str] = Counter()
        # In bytes, so that a line is what ends in a newline and not what ends in U+2028.
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                index, text, kind = _entry(line, f"{path}, line {number}")
                if index in texts:
                    raise InputError(
                        f"{path}, line {number}: node {index} has a text already; every node is "
                        "named once"
                    )
                texts[index] = text
                kinds.update([kind] if kind else [])
        if not texts:
            raise InputError(f"{path} is empty: expected one JSON line per node")
        missing = next((index for index in range(len(texts)) if index not in texts), None)
        if missing is not None:
            raise InputError(
                f"{path} has {len(texts)} lines, which must be the nodes 0 to {len(texts) - 1}, "
                f"but node {missing} is not there: add it (its text may be empty)"
            )
        return cls(tuple(texts[index] for index in range(len(texts))), dict(kinds))


def _entry(line: bytes, where: str) -> tuple[int, str, str]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested without end
        raise InputError(f"{where}: expected a JSON object in UTF-8") from None
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected a JSON object, found a {type(entry).__name__}")
    index, text = entry.get("index"), entry.get("text")
    # True is an int to Python, and no index.
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise InputError(f'{where}: expected "index" to be 0 or more, found {index!r}')
    if not isinstance(text, str):
        raise InputError(f'{where}: expected "text" to be a string, found {text!r}')
    kind = entry.get("kind", "")
    return index, text, kind if isinstance(kind, str) else ""


def split_words(text: str) -> list[str]:
    """Split a text into words: runs of letters and digits in lower case.

    >>> split_words("Bayes's Rule: a case-based view")
    ['bayes', 'rule', 'a', 'case', 'based', 'view']
    """
    # NOTE[PAPER]: neither the file of GloVe-300 vectors nor the splitting into words is stated;
    # lower case and words without punctuation are found in all of GloVe's files.
    return _WORD.findall(_POSSESSIVE.sub("", text.lower()))


def stemmed_words(text: str) -> list[str]:
    """Return the stems of a text's words in order, by the English Snowball stemmer.

    Words are runs of letters and digits in lower case. Typographic letters that stand for
    others (ligatures, full-width forms) become those others first.

    >>> stemmed_words("Neural-Network Theories")
    ['neural', 'network', 'theori']
    """
    return [stem(word) for word in split_words(unicodedata.normalize("NFKC", text))]


@lru_cache(maxsize=_REMEMBERED)
def stem(word: str) -> str:
    """Return the stem of a word in lower case."""
    return _stemmer().stemWord(word)


@cache
def _stemmer() -> Any:
    # NOTE[PAPER]: which stemmer was used is not stated ("basically transforms a word into its
    # original form"); here it is Snowball's for English, also known as Porter2.
    import snowballstemmer

    return snowballstemmer.stemmer("english")


def title_features(texts: Sequence[str], vectors: WordVectors) -> Floats:
    """Return mean word vector without stop words, number of words, number without stop words.

    Words without a vector count towards the lengths but not the mean. A text without any known
    word has the mean zero.

    Args:
        texts: One text per node.
        vectors: Vectors of the words (see :func:`words_of`).

    Returns:
        A matrix ``[texts, vectors.width + 2]``.
    """
    features = np.zeros((len(texts), vectors.width + 2), dtype=np.float32)
    stop = _stop_words()
    for row, text in zip(features, texts, strict=True):
        words = split_words(text)
        content = [word for word in words if word not in stop]
        known = [vectors.index[word] for word in content if word in vectors]
        if known:
            # NOTE[PAPER]: whether a word said twice counts twice is not stated; here it does.
            row[:-2] = vectors.matrix[known].mean(axis=0, dtype=np.float64)
        # NOTE[PAPER]: the unit of "the length of the title" is not stated; here it is words.
        row[-2:] = len(words), len(content)
    return features


def words_of(texts: Iterable[str]) -> set[str]:
    """Return all words of some texts but stop words: those whose vectors are needed."""
    words: set[str] = set()
    for text in texts:
        words.update(split_words(text))
    return words - _stop_words()


def _stop_words() -> frozenset[str]:
    # NOTE[PAPER]: the list of stop words is not stated; scikit-learn's English list is taken.
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS)


class WordVectors:
    """Vectors of words, looked up by the word as it is written in the file.

    Args:
        index: Row of each word.
        matrix: The vectors, one per row.
    """

    def __init__(self, index: dict[str, int], matrix: Floats) -> None:
        if matrix.ndim != 2 or sorted(index.values()) != list(range(len(matrix))):
            raise InputError(
                f"expected one row per word, found {len(index)} words and a matrix of shape "
                f"{matrix.shape}"
            )
        self.index = index
        self.matrix = matrix

    @property
    def width(self) -> int:
        """Number of entries of a vector."""
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str) -> Floats:
        return self.matrix[self.index[word]]

    @classmethod
    def read(cls, path: str | PathLike[str], words: Collection[str]) -> WordVectors:
        """Read the vectors of some words; words that the file lacks are left out.

        A line is ``word v1 ... vd``. A first line of two whole numbers (how many words, and d) is
        skipped. If a word comes twice, its first vector counts. Memory grows with ``words``, not
        with the file.

        Args:
            path: A text file, plain or ``.gz``.
            words: Words to keep.

        Raises:
            InputError: If the file cannot be read, or a line has too few or too many numbers.
        """
        path = Path(path)
        wanted = {word.encode(errors="surrogatepass"): word for word in words}
        index: dict[str, int] = {}
        rows: list[Floats] = []
        width: int | None = None
        for number, line in _lines(path):
            where = f"{path}, line {number}"
            if width is None:
                width = _width(line, where)
                if _is_header(line):
                    continue
            key = _word(line, width, where)
            word = wanted.get(key)
            if word is not None and word not in index:
                index[word] = len(rows)
                rows.append(_vector(line[len(key) + 1 :], where))
        if width is None:
            raise InputError(f"{path} holds no word vectors")
        matrix = np.stack(rows) if rows else np.zeros((0, width), dtype=np.float32)
        return cls(index, matrix)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    if not path.is_file():
        raise InputError(f"the file of word vectors {path} does not exist")
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while line := file.readline(_LONGEST_LINE):
                number += 1
                if len(line) == _LONGEST_LINE:
                    raise InputError(f"{path}, line {number} is too long for a text file")
                # Only ends of line and word2vec's last space: a word may be another blank.
                if line := line.rstrip(b"\r\n "):
                    yield number, line
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise InputError(f"{path} is damaged after line {number}: fetch it again") from None


def _is_header(line: bytes) -> bool:
    fields = line.split(b" ")
    return len(fields) == 2 and all(field.isdigit() and len(field) < 19 for field in fields)


def _width(line: bytes, where: str) -> int:
    """Number of entries of a vector, as the first line of the file has it."""
    fields = line.split(b" ")
    if _is_header(line):
        width = int(fields[1])
    else:
        # Numbers at the end of the line, of which the first field is none: it is the word.
        width = sum(1 for _ in takewhile(_is_number, reversed(fields[1:])))
    if not width:
        raise InputError(
            f"{where}: expected a word and the numbers of its vector, separated by spaces, as in "
            "GloVe's text files; unpack archives first"
        )
    return width


def _word(line: bytes, width: int, where: str) -> bytes:
    extra = line.count(b" ") - width
    if not extra:
        return line[: line.index(b" ")]
    # From the right, since some words of GloVe's 840B file contain spaces.
    word = line.rsplit(b" ", width)[0]
    # But a word that goes on in nothing but numbers is a vector too long.
    if extra < 0 or all(_is_number(field) for field in word.split(b" ")[1:]):
        raise InputError(
            f"{where}: expected {width} numbers after the word, as in the first line, found "
            f"{width + extra}; the file is damaged: fetch it again"
        )
    return word


def _vector(numbers: bytes, where: str) -> Floats:
    try:
        with np.errstate(over="ignore"):
            vector = np.array([float(field) for field in numbers.split(b" ")]).astype(np.float32)
        if np.isfinite(vector).all() and b"_" not in numbers:
            return vector
    except ValueError:
        pass
    raise InputError(f"{where}: the vector holds something that is no finite float32 number")


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field  # 1_0 is a number to Python alone


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
    except ImportError as error:  # its own requirements count among them
        raise InputError(
            "Expected the package transformers to encode texts with; found: "
            f"{' '.join(str(error).split()):.200}. {how_to_install('text')}"
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
