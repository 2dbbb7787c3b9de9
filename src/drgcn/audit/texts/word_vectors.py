"""Word vectors out of GloVe's text files, of which only the words asked for are kept."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Iterator
from itertools import takewhile
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from drgcn.errors import InputError

Floats = npt.NDArray[np.float32]

# No line of a vector file is near this long; a file without line ends must not fill the memory.
_LONGEST_LINE = 1 << 20


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
    return len(fields) == 2 and all(field.isdigit() for field in fields)


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
        if np.isfinite(vector).all():
            return vector
    except ValueError:
        pass
    raise InputError(f"{where}: the vector holds something that is no finite float32 number")


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True
