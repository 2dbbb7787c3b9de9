"""Words of class names, and lookup of words in the texts or named features of nodes."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, Protocol

import numpy as np
from scipy import sparse

from drgcn.audit.texts import split_words, stem, stemmed_words
from drgcn.data.features import Features
from drgcn.data.splits import Mask
from drgcn.errors import InputError


class WordSource(Protocol):
    """Lookup of words for all nodes at once; words are stems."""

    @property
    def readable(self) -> Mask:
        """The nodes of which any words are known."""

    def has_word(self, stem: str) -> Mask:
        """The nodes that have a word."""

    def has_phrase(self, stems: Sequence[str]) -> Mask:
        """The nodes that have words one directly after the other."""


Rule = Literal["all", "any", "phrase"]
RULES: Final[tuple[Rule, ...]] = ("all", "any", "phrase")
RULE_NAMES: Final[dict[Rule, str]] = {"all": "all words", "any": "any word", "phrase": "in order"}
Expansions = Mapping[str, str | Sequence[str]]

# Names of research fields that are usually written as letters. A class called "AI" may still
# mean something else: every table shows the words that were looked for.
ABBREVIATIONS: Final[Expansions] = MappingProxyType(
    {
        "AI": "Artificial Intelligence",
        "ML": "Machine Learning",
        "IR": "Information Retrieval",
        "DB": "Database",
        "HCI": "Human Computer Interface",
        "NLP": "Natural Language Processing",
        "CV": "Computer Vision",
    }
)

# They say nothing of a class, and texts often come without them.
_GLUE: Final = frozenset(
    (
        "a",
        "an",
        "and",
        "as",
        "at",
        "by",
        "for",
        "from",
        "in",
        "of",
        "on",
        "or",
        "the",
        "to",
        "with",
    )
)
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class LabelWords:
    """Name of a class, and the ways to write it.

    Attributes:
        name: The class as the data calls it.
        forms: The ways to write it, each as words in lower case, not stemmed. None if the name
            has no letters: there is nothing to look for then.
    """

    name: str
    forms: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, name: str, expansions: Expansions = ABBREVIATIONS) -> LabelWords:
        """Split a name, or its expansion, into words: at blanks, signs and ``aB``.

        Args:
            name: Name of a class, such as ``"Reinforcement_Learning"``.
            expansions: How names are written out, one way or several.
        """
        if not isinstance(name, str):
            raise InputError(
                f"Expected class names to be strings; found {name!r}. Use str() on them."
            )
        written = expansions.get(name, name)
        ways = [written] if isinstance(written, str) else list(written)
        forms = dict.fromkeys(tuple(_words(way)) for way in ways)
        return cls(name, tuple(form for form in forms if any(map(_has_content, form))))

    def __str__(self) -> str:
        return " / ".join(" ".join(form) for form in self.forms)

    @property
    def stems(self) -> frozenset[str]:
        """The stems that ``"any"`` looks for: each word, and all of them written as one."""
        words = {word for form in self.forms for word in form if _has_content(word)}
        return frozenset(map(stem, words | {"".join(form) for form in self.forms}))

    def found(self, source: WordSource, rule: Rule) -> Mask:
        """Return the nodes that carry the name.

        Args:
            source: Where to look.
            rule: ``"all"``: every word but "of", "and" and the like, anywhere. ``"any"``: one
                of these words that has a letter. ``"phrase"``: all words in order, with nothing
                between them. The name written as one word ("casebased") counts under all three,
                since texts lose their hyphens.
        """
        if rule not in RULES:
            raise InputError(f"Expected rule to be one of {', '.join(RULES)}; found {rule!r}.")
        none = np.zeros_like(source.readable)
        if rule == "any":
            return _union((source.has_word(word) for word in sorted(self.stems)), none)
        return _union((_carried(form, source, rule) for form in self.forms), none)


def _carried(form: tuple[str, ...], source: WordSource, rule: Rule) -> Mask:
    as_one = source.has_word(stem("".join(form)))
    if rule == "phrase":
        return as_one | source.has_phrase([stem(word) for word in form])
    words = [stem(word) for word in form if word not in _GLUE]
    return as_one | np.all([source.has_word(word) for word in words], axis=0)


def _union(masks: Iterable[Mask], none: Mask) -> Mask:
    return np.any([none, *masks], axis=0)


def _words(name: str) -> list[str]:
    return split_words(_CAMEL.sub(" ", unicodedata.normalize("NFKC", name)))


def _has_content(word: str) -> bool:
    return word not in _GLUE and any(letter.isalpha() for letter in word)


class _Lines:
    """Stemmed words of lines, and the lines that have a word."""

    def __init__(self, lines: Sequence[str | None], count: int, what: str, of: str, lack: str):
        if isinstance(lines, str) or len(lines) != count:
            found = "a single string" if isinstance(lines, str) else f"{len(lines)} {what}s"
            raise InputError(
                f"Expected one {what} for each of {count} {of}s; found {found}. Give {lack}."
            )
        self.lines: list[str] = []
        self._with: defaultdict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(lines):
            if not isinstance(line, str | None):
                raise InputError(
                    f"Expected the {what} of {of} {number} to be a string; found "
                    f"{type(line).__name__}. Give {lack}."
                )
            stems = stemmed_words(line or "")
            # Blanks at both ends, so that a phrase is found at whole words only.
            self.lines.append(f" {' '.join(stems)} ")
            for word in set(stems):
                self._with[word].append(number)

    @property
    def readable(self) -> list[int]:
        """Lines with at least one word."""
        return [number for number, line in enumerate(self.lines) if not line.isspace()]

    def with_word(self, stem: str) -> list[int]:
        """Return the lines that have a word."""
        return list(self._with.get(stem, []))

    def with_phrase(self, stems: Sequence[str]) -> list[int]:
        """Return the lines that have words one directly after the other."""
        wanted = f" {' '.join(stems)} "
        rarest = min((self._with.get(stem, []) for stem in stems), key=len, default=[])
        return [number for number in rarest if wanted in self.lines[number]]


class TextIndex:
    """Stemmed words of texts (see :class:`drgcn.audit.leaks.words.WordSource`).

    Args:
        texts: One text per node; ``None`` or a text without words where there is none.
        nodes: How many nodes there are.

    Raises:
        InputError: If there is not one text per node.
    """

    def __init__(self, texts: Sequence[str | None], nodes: int) -> None:
        lack = "an empty text to nodes that have none"
        self._texts = _Lines(texts, nodes, "text", "node", lack)

    @property
    def readable(self) -> Mask:
        """The nodes whose text has at least one word."""
        return self._mask(self._texts.readable)

    def has_word(self, stem: str) -> Mask:
        """The nodes with a word in their text."""
        return self._mask(self._texts.with_word(stem))

    def has_phrase(self, stems: Sequence[str]) -> Mask:
        """The nodes with words in their text one directly after the other."""
        return self._mask(self._texts.with_phrase(stems))

    def _mask(self, nodes: list[int]) -> Mask:
        mask = np.zeros(len(self._texts.lines), dtype=np.bool_)
        mask[nodes] = True
        return mask


class FeatureWords:
    """Words of a node's features (see :class:`drgcn.audit.leaks.words.WordSource`).

    A node has a word if a column whose name contains it is not zero. Order is known only within
    a column's name, as in columns named after two words.

    Args:
        x: Features, an array or a ``scipy.sparse.csr_array``.
        names: One name per column; ``None`` or ``""`` where it is not known.

    Raises:
        InputError: If there is not one name per column.
    """

    def __init__(self, x: Features, names: Sequence[str | None]) -> None:
        lack = "None to columns whose word is not known"
        self._names = _Lines(names, x.shape[1], "name", "feature column", lack)
        self._columns = sparse.csc_array(x)

    @property
    def readable(self) -> Mask:
        """The nodes with at least one column that is named and not zero."""
        return self._any(self._names.readable)

    def columns(self, stem: str) -> list[int]:
        """The columns whose name contains a word."""
        return self._names.with_word(stem)

    def has_word(self, stem: str) -> Mask:
        """The nodes with a word among their features."""
        return self._any(self.columns(stem))

    def has_phrase(self, stems: Sequence[str]) -> Mask:
        """The nodes with a column whose name has these words one after the other."""
        return self._any(self._names.with_phrase(stems))

    def _any(self, columns: list[int]) -> Mask:
        chosen = self._columns[:, columns]
        mask = np.zeros(self._columns.shape[0], dtype=np.bool_)
        mask[chosen.indices[chosen.data != 0]] = True
        return mask


def read_feature_names(path: str | PathLike[str]) -> tuple[str | None, ...]:
    """Read the word of every column, ``None`` where it is not known for sure.

    The file is a CSV table with the columns ``dim`` (the feature column, from 0, each one once)
    and ``word`` (or ``top_surface_word``). Where it has a column ``confident``, words of rows
    with a 0 there were only guessed, and are left out.

    Raises:
        InputError: If the file is something else.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"the feature names in {path} cannot be read: {error}") from None
    head = list(rows[0]) if rows else []
    key = next((key for key in ("word", "top_surface_word") if key in head), None)
    if key is None or "dim" not in head:
        raise InputError(
            f"{path}: expected a CSV table with the columns dim and word; found "
            f"{', '.join(map(str, head)) or 'no rows'}"
        )
    names: dict[int, str | None] = {}
    for number, row in enumerate(rows, 2):
        dim = row["dim"]
        if not re.fullmatch(r"[0-9]{1,9}", dim or "") or int(dim) in names:
            raise InputError(
                f"{path}, line {number}: expected dim to be a column that was not named yet; "
                f"found {dim!r}"
            )
        sure = row.get("confident", "1") != "0"
        names[int(dim)] = row[key] if sure and row[key] else None
    if sorted(names) != list(range(len(names))):
        raise InputError(
            f"{path}: expected the feature columns 0 to {len(names) - 1}, each once; found "
            "others: give a row without a word to columns that have none"
        )
    return tuple(names[dim] for dim in range(len(names)))
